# SPDX-License-Identifier: Apache-2.0
# bash completion for cay. Words come from `cay completion`, so this file need not follow the verbs.

# WORD<TAB>MEANING lines to the words that begin with $cur.
_cay_reply() {
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$(cay completion "$@" 2>/dev/null | sed 's/=\{0,1\}\t.*//')" -- "$cur"))
}

_cay() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local verb='' sub='' i n=0 id=''
    COMPREPLY=()
    # What stands before the cursor: verb, second word of a family, then operands.
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) return ;; # the command inside: its words are not ours to know
        --home | --provider | --host) ((i++)) ;;
        -*) ;;
        *)
            if [ -z "$verb" ]; then
                verb=${COMP_WORDS[i]}
            elif [ -z "$sub" ] && [[ $verb == @(audit|cloudflare|e2b|files|jobs|key|manifest|net|pool|port|secret|tenant|volume) ]]; then
                sub=${COMP_WORDS[i]}
            elif [ -z "$sub" ] && [ $n = 0 ] && [[ $verb == snapshot && ${COMP_WORDS[i]} == @(export|import|inspect|pull|push|rename|rm) ]]; then
                sub=${COMP_WORDS[i]}
            elif [ -z "$sub" ] && [ $n = 0 ] && [[ $verb == services && ${COMP_WORDS[i]} == @(start|stop|restart|wait) ]]; then
                sub=${COMP_WORDS[i]}
            elif [ -z "$sub" ] && [ $n = 0 ] && [[ $verb == tools && ${COMP_WORDS[i]} == call ]]; then
                sub=call
            elif [ -z "$sub" ] && [[ $verb == chat && ${COMP_WORDS[i]} == @(list|reset|rm) ]]; then
                sub=${COMP_WORDS[i]}
            else
                [ $n = 0 ] && id=${COMP_WORDS[i]}
                ((n++))
            fi
            ;;
        esac
    done

    case $prev in
    --from | --to) _cay_reply snapshots; return ;;
    --home | --root | --skills) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    --mount) compopt -o nospace; COMPREPLY=($(compgen -d -- "$cur")); return ;;
    --volume) compopt -o nospace; COMPREPLY=($(compgen -S : -W "$(cay -q volume ls 2>/dev/null)" -- "$cur")); return ;;
    --env-file) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --provider) COMPREPLY=($(compgen -W 'native process local' -- "$cur")); return ;;
    --isolation | --need) COMPREPLY=($(compgen -W 'none process rootless root' -- "$cur")); return ;;
    --net) COMPREPLY=($(compgen -W 'off all alpine crates debian docker github go maven npm pypi rubygems ubuntu' -- "$cur")); return ;;
    --on-expiry) COMPREPLY=($(compgen -W 'kill pause' -- "$cur")); return ;;
    --profile) COMPREPLY=($(compgen -W 'default root' -- "$cur")); return ;;
    --scope) if [ "$verb" = key ]; then COMPREPLY=($(compgen -W 'admin tenant sandbox port file' -- "$cur")); return; fi; COMPREPLY=($(compgen -W 'one group tree' -- "$cur")); return ;;
    --instructions | --resume | --sandbox-state | --session | --trace) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --approve) COMPREPLY=($(compgen -W 'auto ask never' -- "$cur")); return ;;
    --form) COMPREPLY=($(compgen -W 'plain openai chat mcp' -- "$cur")); return ;;
    --api) COMPREPLY=($(compgen -W 'responses websocket chat' -- "$cur")); return ;;
    --sandbox) if [ "$verb" = chat ]; then COMPREPLY=($(compgen -W 'native process none' -- "$cur")); else _cay_reply ids; fi; return ;;
    --sandbox-id) _cay_reply ids; return ;;
    --service) COMPREPLY=($(compgen -W "$(cay -q services "$id" 2>/dev/null)" -- "$cur")); return ;;
    --sandbox-setup) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --state) if [[ $verb == @(agent|resume) ]]; then COMPREPLY=($(compgen -f -- "$cur")); return; fi; COMPREPLY=($(compgen -W 'creating running paused stopped deleting' -- "$cur")); return ;;
    esac

    if [ -z "$verb" ]; then
        COMPREPLY=($(compgen -W "--help --version $(cay completion verbs 2>/dev/null | cut -f1 | cut -d' ' -f1 | sort -u)" -- "$cur"))
        return
    fi
    if [ -z "$sub" ] && [[ $verb == @(audit|cloudflare|e2b|files|jobs|key|manifest|net|pool|port|secret|tenant|volume) ]]; then
        COMPREPLY=($(compgen -W "$(cay completion verbs 2>/dev/null | cut -f1 | sed -n "s/^$verb //p")" -- "$cur"))
        return
    fi
    case $cur in
    -*) _cay_reply options "$verb" ${sub:+"$sub"}; return ;;
    esac
    case $verb in
    jobs) [[ $sub == @(cancel|replay) ]] && COMPREPLY=($(compgen -W "$(cay -q jobs ls 2>/dev/null)" -- "$cur")) ;;
    key) [ "$sub" = revoke ] && COMPREPLY=($(compgen -W "$(cay -q key ls 2>/dev/null)" -- "$cur")) ;;
    pool) if [ "$sub" = rm ]; then COMPREPLY=($(compgen -W "$(cay -q pool ls 2>/dev/null)" -- "$cur")); elif [ "$sub" = set ]; then COMPREPLY=($(compgen -W "$(cay -q template ls 2>/dev/null)" -- "$cur")); fi ;;
    tenant) [[ $sub == @(rm|set) ]] && COMPREPLY=($(compgen -W "$(cay -q tenant ls 2>/dev/null)" -- "$cur")) ;;
    volume) [ "$sub" = create ] || [ "$sub" = ls ] || COMPREPLY=($(compgen -W "$(cay -q volume ls 2>/dev/null)" -- "$cur")) ;;
    snapshot)
        if [ -n "$sub" ]; then
            _cay_reply snapshots
        elif [ $n = 0 ]; then
            COMPREPLY=($(compgen -W "$(cay completion verbs 2>/dev/null | cut -f1 | sed -n "s/^snapshot //p")
                $(cay completion ids 2>/dev/null | cut -f1)" -- "$cur"))
        fi
        ;;
    services)
        if [ $n = 0 ]; then
            COMPREPLY=($(compgen -W "$([ -n "$sub" ] || cay completion verbs 2>/dev/null | cut -f1 | sed -n "s/^services //p")
                $(cay completion ids 2>/dev/null | cut -f1)" -- "$cur"))
        elif [ -n "$sub" ]; then
            COMPREPLY=($(compgen -W "$(cay -q services "$id" 2>/dev/null)" -- "$cur"))
        fi
        ;;
    tools)
        if [ "$sub" = call ] && [ $n = 0 ]; then
            _cay_reply ids
        else
            COMPREPLY=($(compgen -W "$([ -n "$sub" ] || echo call) $(cay -q tools 2>/dev/null)" -- "$cur"))
        fi
        ;;
    chat)
        case $sub in
        rm) COMPREPLY=($(compgen -W "$(cay chat list -q 2>/dev/null)" -- "$cur")) ;;
        '') COMPREPLY=($(compgen -W "$(cay completion verbs 2>/dev/null | cut -f1 | sed -n "s/^chat //p")" -- "$cur")) ;;
        esac
        ;;
    fork) COMPREPLY=($(compgen -W "$({ cay completion ids; cay completion snapshots; } 2>/dev/null | cut -f1)" -- "$cur")) ;;
    run | create | agent | doctor | gc | purge | serve | tour | version | completion) ;;
    help) COMPREPLY=($(compgen -W "$(cay completion verbs 2>/dev/null | cut -f1 | cut -d' ' -f1 | sort -u)" -- "$cur")) ;;
    attach | logs | signal) if [ $n = 0 ]; then _cay_reply ids; else _cay_reply procs "$id"; fi ;;
    cp)
        compopt -o nospace -o filenames
        COMPREPLY=($(compgen -f -- "$cur") $(compgen -S : -W "$(cay completion ids 2>/dev/null | cut -f1)" -- "$cur"))
        ;;
    pause | resume | extend | kill | rm | inspect | top) _cay_reply ids ;; # any number of them
    *) [ $n = 0 ] && _cay_reply ids ;;
    esac
}
complete -F _cay cay
