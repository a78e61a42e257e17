# SPDX-License-Identifier: Apache-2.0
# fish completion for cay. Words come from `cay completion`, so this file need not follow the verbs.

# The verb before the cursor (two words for a family) and then the operands.
function __cay_before
    set -l skip 0
    for w in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
            continue
        end
        switch $w
            case --home --provider --host
                set skip 1
            case '-*'
            case '*'
                echo $w
        end
    end
end

function __cay_complete
    contains -- -- (commandline -opc); and return
    set -l before (__cay_before)
    set -l cur (commandline -ct)
    switch "$before[1]"
        case ''
            cay completion verbs 2>/dev/null | string match -rv '^(audit|chat|files|jobs|key|manifest|net|pool|port|secret|services|snapshot|tenant|tools|volume) '
            printf 'files\tfiles inside a sandbox\nmanifest\twhat is put into a sandbox\nnet\twhat a sandbox may reach\nsecret\tvalues that no sandbox sees\nport\tports inside a sandbox\nvolume\tdirectories that outlive sandboxes\naudit\twho did what\njobs\twhat is left to be done\nkey\tkeys for the server\ntenant\twho shares this machine\npool\tsandboxes that are ready\n'
            return
        case audit files jobs key manifest net pool port secret tenant volume
            if test (count $before) -lt 2
                cay completion verbs 2>/dev/null | string replace -rf "^$before[1] " ''
                return
            end
            set -l pair $before[1..2]
            set before "$pair" $before[3..-1]
    end
    if test "$before[1]" = snapshot; and contains -- "$before[2]" export import inspect pull push rename rm
        set -l pair $before[1..2]
        set before "$pair" $before[3..-1]
    end
    if test "$before[1]" = services; and contains -- "$before[2]" start stop restart wait
        set -l pair $before[1..2]
        set before "$pair" $before[3..-1]
    end
    if test "$before[1]" = tools; and test "$before[2]" = call
        set -l pair $before[1..2]
        set before "$pair" $before[3..-1]
    end
    if test "$before[1]" = chat; and contains -- "$before[2]" list reset rm
        set -l pair $before[1..2]
        set before "$pair" $before[3..-1]
    end
    if string match -q -- '-*' "$cur"
        cay completion options (string split ' ' -- $before[1]) 2>/dev/null | string replace -r '=\t' \t
        return
    end
    switch $before[1]
        case run create doctor gc purge serve tour version completion
        case help
            cay completion verbs 2>/dev/null | string match -rv '^(audit|chat|files|jobs|key|manifest|net|pool|port|secret|services|snapshot|tenant|tools|volume) '
        case 'chat rm'
            cay chat list -q 2>/dev/null
        case chat
            cay completion verbs 2>/dev/null | string replace -rf '^chat ' ''
        case 'chat *'
        case 'snapshot *'
            cay completion snapshots 2>/dev/null
        case snapshot
            cay completion verbs 2>/dev/null | string replace -rf '^snapshot ' ''
            cay completion ids 2>/dev/null
        case services
            cay completion verbs 2>/dev/null | string replace -rf '^services ' ''
            cay completion ids 2>/dev/null
        case 'services *'
            if test (count $before) = 1
                cay completion ids 2>/dev/null
            else
                cay -q services $before[2] 2>/dev/null
            end
        case tools
            printf 'call\tcall one in a sandbox\n'
            cay -q tools 2>/dev/null
        case 'tools call'
            if test (count $before) = 1
                cay completion ids 2>/dev/null
            else
                cay -q tools 2>/dev/null
            end
        case fork
            cay completion ids 2>/dev/null
            cay completion snapshots 2>/dev/null
        case attach logs signal
            if test (count $before) = 1
                cay completion ids 2>/dev/null
            else
                cay completion procs $before[2] 2>/dev/null
            end
        case cp
            cay completion ids 2>/dev/null | string replace \t :\t
            __fish_complete_path "$cur"
        case '*'
            cay completion ids 2>/dev/null
    end
end

complete -c cay -f -a '(__cay_complete)'
complete -c cay -l from -x -a '(cay completion snapshots 2>/dev/null)'
complete -c cay -l to -x -a '(cay completion snapshots 2>/dev/null)'
complete -c cay -l home -x -a '(__fish_complete_directories)'
complete -c cay -l host -x -d 'the sandboxes of a cay server'
complete -c cay -l root -x -a '(__fish_complete_directories)'
complete -c cay -l mount -x -a '(__fish_complete_directories)'
complete -c cay -l env-file -r -F
complete -c cay -l provider -x -a 'native process local'
complete -c cay -l net -x -a 'off all alpine crates debian docker github go maven npm pypi rubygems ubuntu'
complete -c cay -l isolation -x -a 'none process rootless root'
complete -c cay -l need -x -a 'none process rootless root'
complete -c cay -l on-expiry -x -a 'kill pause'
complete -c cay -l profile -x -a 'default root'
complete -c cay -l scope -x -a 'one group tree'
complete -c cay -n 'not __fish_seen_subcommand_from resume agent' -l state -x -a 'creating running paused stopped deleting'
complete -c cay -n '__fish_seen_subcommand_from resume agent' -l state -r -F
