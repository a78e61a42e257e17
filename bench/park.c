/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest pid 1: sleeps for ever. */
#include <unistd.h>

int main(void)
{
    for (;;)
        pause();
}
