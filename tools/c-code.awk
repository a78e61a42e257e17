# SPDX-License-Identifier: Apache-2.0
# Prints C without comments and with the insides of strings and characters emptied, line by line, so
# that what is left is code. Include lines keep their names.
FNR == 1 { comment = 0 }
{
    if (!comment && $0 ~ /^[ \t]*#[ \t]*include/) {
        sub(/[ \t]*(\/\/|\/\*).*$/, "")
        print
        next
    }
    out = ""
    n = length($0)
    for (i = 1; i <= n; i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (comment) {
            if (two == "*/") { comment = 0; i++ }
        } else if (two == "/*") {
            comment = 1
            i++
            out = out " "
        } else if (two == "//") {
            break
        } else if (c == "\"" || c == "'") {
            q = c
            for (i++; i <= n; i++) {
                c = substr($0, i, 1)
                if (c == "\\") i++
                else if (c == q) break
            }
            out = out q q
        } else {
            out = out c
        }
    }
    print out
}
