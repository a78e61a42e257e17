/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provider/provider.h - the providers there are, and what they share.
 */
#pragma once
#include <cay/sys/provider.h>

/* Ends with NULL. */
extern const cay_provider_ops *const cay__providers[];
