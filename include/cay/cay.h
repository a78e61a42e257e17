/* SPDX-License-Identifier: Apache-2.0 */
/* cay/cay.h - all of libcay. */
#pragma once
#include <cay/error.h>
#include <cay/service.h>
#include <cay/access.h>
#include <cay/audit.h>
#include <cay/build.h>
#include <cay/jobs.h>
#include <cay/sandbox.h>
#include <cay/agent.h>
#include <cay/ledger.h>
#include <cay/fetch.h>
#include <cay/mcp.h>
#include <cay/note.h>
#include <cay/patch.h>
#include <cay/policy.h>
#include <cay/sdk.h>
#include <cay/manifest.h>
#include <cay/shell.h>
#include <cay/snapshot.h>
#include <cay/state.h>
#include <cay/template.h>
#include <cay/tools.h>
#include <cay/volume.h>
#include <cay/workspace.h>
#include <cay/sys/capability.h>
#include <cay/trace.h>
