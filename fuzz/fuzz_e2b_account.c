/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of a sandbox: its passwd(5) after a first line that is what is looked for. What is found
 * is a field of a line that has it, and ends with NUL. */
#include <base/buf.h>
#include <server/dialect/e2b/envelope.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char key[64], out[40];
    const uint8_t *eol = len ? memchr(data, '\n', len) : NULL;
    size_t n = eol ? (size_t)(eol - data) : 0;
    if (!eol || n >= sizeof key)
        return 0;
    memcpy(key, data, n);
    key[n] = 0;
    size_t rest = len - n - 1;
    char *text = malloc(rest + 1); /* its end is the end of what may be read */
    memcpy(text, eol + 1, rest);
    for (unsigned by = 0; by < 3; by++)
        for (unsigned want = 0; want < 7; want++)
            if (e2b_account(text, rest, by, key, want, out, sizeof out)) {
                size_t k = strnlen(out, sizeof out);
                if (!k || k == sizeof out || strpbrk(out, ":\n") || !memmem(text, rest, out, k) ||
                    (want == by && strcmp(out, key)))
                    abort();
            }
    free(text);
    return 0;
}
