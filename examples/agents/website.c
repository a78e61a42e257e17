/* SPDX-License-Identifier: Apache-2.0 */
/*
 * website - a page is copied by looking at it: the agent opens the original in a browser, looks at
 * its logo, writes a copy and compares. Wants a Chromium (Debian: chromium).
 */
#include "task.h"

static const file site[] = {
    { "site/index.html",
      "<!doctype html><meta charset=utf-8><title>Harbour Café</title><link rel=icon "
      "href=data:,><body style='font-family:sans-serif;background:#f6efe2'>"
      "<img src=logo.svg width=80 alt=logo><h1>Harbour Café</h1><p>Open daily, 8 to 18.</p>"
      "<button onclick=\"document.getElementById('m').hidden=false\">Menu</button><ul id=m "
      "hidden><li>Soup<li>Tea</ul>" },
    { "site/logo.svg", "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 10 10'><circle cx='5' "
                       "cy='5' r='4' fill='teal'/></svg>" },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    cay_capability *can[] = { cay_cap_filesystem(NULL), cay_cap_shell(NULL),
                              cay_cap_browser(NULL) };
    cay_agent designer = { .size = sizeof designer,
                           .name = "Designer",
                           .sandbox = true,
                           .capabilities = can,
                           .ncapabilities = 3,
                           .instructions = "Look at the page as a visitor would before you write "
                                           "anything. Afterwards open your copy and compare." };
    cay_run_result *res = NULL;
    cay_sandbox *sb = NULL;
    char *text = NULL;
    size_t len;
    task t;

    int rc = task_open(&t, argc, argv, site);
    if (rc == 0) {
        cay_create spec = { .size = sizeof spec, .name = "website", .manifest.text = t.manifest };
        rc = cay_client_create(t.service, NULL, &spec, &sb, &t.err);
    }
    if (rc == 0) {
        cay_run_config conf = { .size = sizeof conf, .sandbox = sb };
        rc = task_run(&t, &designer, "Copy the page of site/ to copy/index.html, as one file.",
                      &conf, &res);
    }
    if (rc == 0)
        rc = cay_file_get(sb, NULL, "copy/index.html", 65536, &text, &len, &t.err);
    if (rc == 0)
        printf("%s\nthe copy %s its logo\n", res->output, strstr(text, "<svg") ? "has" : "lacks");
    free(text);
    cay_run_result_free(res);
    if (sb)
        cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
    for (size_t i = 0; i < 3; i++)
        cay_cap_free(can[i]);
    return task_close(&t, rc);
}
