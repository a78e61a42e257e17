/* SPDX-License-Identifier: Apache-2.0 */
/* provider/docker/relay.h - what both ends of a tunnel into a container know. */
#pragma once

#define CAY__PID1_CTL    "/.cay/ctl"
#define CAY__RELAY_WORD  "cay1" /* the relay's first bytes, once whom it leads to has answered */

int cay__relay_main(int argc, char **argv);
