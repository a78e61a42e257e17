/* SPDX-License-Identifier: Apache-2.0 */
#include "db.h"
#include <base/fault.h>
#include <sys/statvfs.h>
#include <wire/shapes.h>

/* Every layer that somebody stands on. ?2: a sandbox that does not count, or ''. */
#define LIST_OR_NONE(text) "CASE WHEN json_valid(" text ") THEN " text " ELSE '{}' END"
/* clang-format cannot lay out macros between string literals. */
/* clang-format off */
#define IN_USE \
    "SELECT j.value FROM snapshots s, json_each(" LIST_OR_NONE("s.layers") ") j" \
    " UNION ALL SELECT id FROM snapshots" \
    " UNION ALL SELECT 'o'||substr(id,2) FROM snapshots" \
    " UNION ALL SELECT j.value FROM sandboxes b," \
    " json_each(" LIST_OR_NONE("b.spec") ",'$.layers') j WHERE b.id<>?2" \
    " UNION ALL SELECT j.value FROM templates t, json_each(" LIST_OR_NONE("t.layers") ") j" \
    " UNION ALL SELECT j.value FROM notes n," \
    " json_each(" LIST_OR_NONE("n.value") ",'$.layers') j WHERE n.space='lease'" \
    " UNION ALL SELECT j.value FROM jobs k," \
    " json_each(" LIST_OR_NONE("k.detail") ") j WHERE k.kind='merge'" \
    " UNION ALL SELECT j.value FROM jobs k," \
    " json_each(" LIST_OR_NONE("k.detail") ",'$.layers') j WHERE k.kind='undo'" \
    " UNION ALL SELECT subject FROM jobs WHERE kind IN('merge','merged')"
/* clang-format on */
/* A record that cannot be read may stand on anything. */
#define DAMAGED                                                                                    \
    "EXISTS(SELECT 1 FROM sandboxes WHERE NOT json_valid(spec))"                                   \
    " OR EXISTS(SELECT 1 FROM snapshots WHERE NOT json_valid(layers))"                             \
    " OR EXISTS(SELECT 1 FROM templates WHERE NOT json_valid(layers))"
#define SNAP_COLUMNS                                                                               \
    "id,sandbox,parent,label,provider,template,method,digest,state,boot,mark,metadata,layers,"     \
    "spec,tenant,"                                                                                 \
    "automatic,durable,created_ms,bytes,files,frozen_us,total_us"
#define SNAPS                                                                                      \
    "SELECT " SNAP_COLUMNS                                                                         \
    ",coalesce(u.n,0) FROM snapshots s LEFT JOIN (SELECT CASE WHEN json_valid(spec)"               \
    " THEN json_extract(spec,'$.from') END AS stands, count(*) AS n FROM sandboxes GROUP BY 1) u " \
    "ON u.stands=s.id "
/* Behind which row a list goes on: that of id ?1. When it is gone and its time ?2 is known, behind
 * those that are older: none is passed over, one of the same millisecond may come twice. The number
 * itself would be exact, and would tell each tenant how much the others do. */
#define BEHIND(table)                                                                              \
    "SELECT coalesce((SELECT seq FROM " table " WHERE id=?1),(SELECT min(seq)-1 FROM " table       \
    " WHERE created_ms>=?2),CASE WHEN ?2 NOT NULL THEN 9223372036854775807 END)"
#define KEY_COLUMNS                                                                                \
    "id,hash,tenant,scope,name,sandbox,path,port,created_ms,expires_ms,revoked_ms,used_ms"
/* One that is stopped takes no cpu and memory; one that is about to start does. */
#define LIVE(column)                                                                               \
    "total(CASE WHEN b.state<>'stopped' OR b.reason='starting' THEN b." column " ELSE 0 END)"
/* A layer that several templates stand on counts once. Of an image's layer its note tells the size;
 * of others one that was made for this. Caches of builds have theirs in their notes. */
#define LAYER_BYTES(tenant)                                                                        \
    "(SELECT total(coalesce((SELECT CASE WHEN json_valid(n.value) THEN "                           \
    "json_extract(n.value,'$.bytes') END FROM notes n WHERE n.space='layer' AND n.key=l.name),"    \
    "(SELECT CAST(n.value AS INTEGER) FROM notes n WHERE n.space='layer-bytes' AND "               \
    "n.key=l.name),0))"                                                                            \
    " FROM (SELECT DISTINCT j.value AS name FROM templates x, json_each(CASE WHEN "                \
    "json_valid(x.layers) THEN x.layers ELSE '[]' END) j WHERE x.tenant=" tenant ") l)"            \
    "+(SELECT total(json_extract(c.value,'$.bytes')) FROM notes c WHERE "                          \
    "c.space='note:build-mount' AND json_valid(c.value) AND "                                      \
    "json_extract(c.value,'$.tenant')=" tenant ")"
#define TENANTS                                                                                    \
    "SELECT "                                                                                      \
    "t.name,t.sandboxes,t." CAY__CPU_MILLI                                                         \
    ",t.memory,t.disk,t.creates,t.created_ms,t.spent,t.spent_ms,"                                  \
    "count(b.id)," LIVE(CAY__CPU_MILLI) "," LIVE(                                                  \
        "memory") ",total(b.disk),t.templates," LAYER_BYTES("t.name") " FROM tenants t LEFT JOIN " \
                                                                      "sandboxes b"                \
                                                                      " ON b.tenant=t.name AND "   \
                                                                      "b.state<>'deleting'"
#define TASK_COLUMNS                                                                               \
    "id,kind,subject,tenant,key,detail,state,owner,error,due_ms,attempts,most,backoff_ms,fence,"   \
    "lease_ms,created_ms,changed_ms"
#define TASK_KINDS "(?2 IS NULL OR kind IN (SELECT value FROM json_each(?2)))"
#define TASKS_DUE                                                                                  \
    "SELECT * FROM (SELECT due_ms AS at," TASK_COLUMNS                                             \
    " FROM tasks WHERE state='waiting' AND due_ms<=?1 AND " TASK_KINDS                             \
    " UNION ALL SELECT due_ms AS at," TASK_COLUMNS                                                 \
    " FROM tasks WHERE state='running' AND lease_ms<=?1 AND " TASK_KINDS ") "
#define BOX_LAYERS "CASE WHEN json_valid(spec) THEN json_extract(spec,'$.layers') END"

static const char *const queries[CAY__Q_COUNT] = {
    [CAY__Q_BEGIN] = "BEGIN IMMEDIATE",
    [CAY__Q_COMMIT] = "COMMIT",
    [CAY__Q_ROLLBACK] = "ROLLBACK",
    [CAY__Q_FULL] = "PRAGMA synchronous=FULL",
    [CAY__Q_NORMAL] = "PRAGMA synchronous=NORMAL",
    [CAY__Q_INSTANCE] = "SELECT value FROM meta WHERE key='instance'",
    [CAY__Q_VERSION] = "PRAGMA data_version",
    [CAY__Q_INSERT] = "INSERT INTO "
                      "sandboxes(id,name,provider,state,reason,spec,box,labels,metadata,created_ms,"
                      "changed_ms,tenant,once," CAY__CPU_MILLI ",memory,disk)"
                      " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)",
    [CAY__Q_STATE] = "SELECT state FROM sandboxes WHERE id=?1",
    [CAY__Q_MOVE] = "UPDATE sandboxes SET state=?2, reason=?3, box=coalesce(?4,box), "
                    "changed_ms=?5, version=version+1"
                    " WHERE id=?1",
    [CAY__Q_RESPEC] =
        "UPDATE sandboxes SET spec=?3, changed_ms=?4, version=version+1 WHERE id=?1 AND version=?2",
    [CAY__Q_RENAME] = "UPDATE sandboxes SET name=coalesce(?2,name), labels=coalesce(?3,labels), "
                      "metadata=coalesce(?4,metadata), changed_ms=?5,"
                      " version=version+1 WHERE id=?1",
    [CAY__Q_REMOVE] = "DELETE FROM sandboxes WHERE id=?1",
    [CAY__Q_GET] = "SELECT "
                   "id,name,provider,reason,state,spec,box,labels,metadata,tenant,created_ms,"
                   "changed_ms,version"
                   " FROM sandboxes WHERE id=?1",
    [CAY__Q_SEQ] = BEHIND("sandboxes"),
    [CAY__Q_LIST] = "SELECT "
                    "id,name,provider,reason,state,spec,box,labels,metadata,tenant,created_ms,"
                    "changed_ms,version"
                    " FROM sandboxes WHERE seq>?1 AND (?2 IS NULL OR provider=?2) AND (?3 IS NULL "
                    "OR tenant=?3) ORDER BY seq",
    [CAY__Q_RESOLVE] = "SELECT id FROM sandboxes WHERE id>=?1 AND id<?1||char(0x10ffff)"
                       " UNION SELECT id FROM sandboxes WHERE name=?1 LIMIT ?2",
    [CAY__Q_POOL_FIND] = "SELECT id,box FROM sandboxes WHERE tenant=?1 AND name=?2 AND "
                         "state='running' ORDER BY seq LIMIT 1",
    [CAY__Q_POOL_TAKE] = "UPDATE sandboxes SET seq=(SELECT max(seq)+1 FROM sandboxes), name=?2, "
                         "state=?3, reason='', spec=?4, box=?5, labels=?6, metadata=?7, tenant=?8,"
                         " once=?9, created_ms=?10, changed_ms=?10, version=version+1 WHERE id=?1",
    [CAY__Q_POOL_DROP] = "UPDATE sandboxes SET state='deleting', changed_ms=?3, version=version+1 "
                         "WHERE id=?1 AND tenant=?2",
    [CAY__Q_NOTE_PUT] = "INSERT INTO notes(space,key,value) VALUES(?1,?2,?3)"
                        " ON CONFLICT(space,key) DO UPDATE SET value=excluded.value",
    [CAY__Q_NOTE_DROP] = "DELETE FROM notes WHERE space=?1 AND key=?2",
    [CAY__Q_NOTE_LIST] =
        "SELECT key,value FROM notes WHERE space=?1 AND substr(key,1,length(?2))=?2 ORDER BY key",
    [CAY__Q_NOTE_GET] = "SELECT value FROM notes WHERE space=?1 AND key=?2",
    [CAY__Q_SNAP_INSERT] = "INSERT INTO snapshots(" SNAP_COLUMNS
                           ") VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,"
                           "coalesce(nullif(?15,''),(SELECT tenant FROM sandboxes WHERE "
                           "id=?2),'default'),?16,?17,?18,?19,?20,?21,?22)",
    [CAY__Q_SNAP_READY] = "UPDATE snapshots SET state='ready', mark='', method=?2, layers=?3, "
                          "bytes=?4, files=?5, frozen_us=?6,"
                          " total_us=?7 WHERE id=?1",
    [CAY__Q_SNAP_STACK] =
        "UPDATE sandboxes SET spec=json_set(spec,'$.layers',json(?2),'$.from',?3), changed_ms=?4, "
        "version=version+1"
        " WHERE id=?1 AND json_valid(spec)",
    [CAY__Q_SNAP_SETTLED] =
        "UPDATE snapshots SET digest=CASE ?2 WHEN '' THEN digest ELSE ?2 END, durable=CASE ?3 WHEN "
        "'1' THEN 1 ELSE durable END,"
        " bytes=CASE WHEN bytes=0 AND files=0 THEN ?4 ELSE bytes END, files=CASE WHEN bytes=0 AND "
        "files=0 THEN ?5 ELSE files END WHERE id=?1",
    [CAY__Q_SNAP_LABEL] = "UPDATE snapshots SET label=?2 WHERE id=?1",
    [CAY__Q_SNAP_REMOVE] = "DELETE FROM snapshots WHERE id=?1",
    /* Of one: only records whose text, which has no blanks, names it are read; searching costs a
       tenth of reading. */
    [CAY__Q_SNAP_GET] =
        "SELECT " SNAP_COLUMNS
        ",(SELECT count(*) FROM sandboxes b WHERE instr(b.spec,'\"from\":\"'||s.id||'\"')>0"
        " AND CASE WHEN json_valid(b.spec) THEN json_extract(b.spec,'$.from') END=s.id) FROM "
        "snapshots s WHERE id=?1",
    [CAY__Q_SNAP_LIST] = SNAPS "WHERE seq>?1 AND (?2 IS NULL OR sandbox=?2) ORDER BY seq",
    [CAY__Q_SNAP_SEQ] = BEHIND("snapshots"),
    [CAY__Q_SNAP_LAST] =
        "SELECT id FROM snapshots WHERE sandbox=?1 AND state='ready' AND method<>'swap'"
        " AND layers=substr(?2,1,length(?2)-1)||CASE ?2 WHEN '[]' THEN '' ELSE ',' "
        "END||'\"'||id||'\"]'"
        " ORDER BY seq DESC LIMIT 1",
    /* Of snapshots as of templates: the operator reaches all by their ids; a name that a tenant
       chose means something to that tenant alone. */
    [CAY__Q_SNAP_RESOLVE] =
        "SELECT id FROM snapshots WHERE id>=?1 AND id<?1||char(0x10ffff) AND (?3 IS NULL OR "
        "tenant=?3)"
        " UNION SELECT id FROM snapshots WHERE label=?1 AND tenant=coalesce(?3,'default') LIMIT ?2",
    [CAY__Q_LAYERS_FREE] =
        "INSERT OR IGNORE INTO jobs(kind,subject,detail,created_ms) SELECT DISTINCT "
        "'remove',c.value,?4,?3"
        " FROM json_each(?1) c WHERE c.value GLOB '[sglo]*' AND c.value NOT IN (" IN_USE
        ") AND NOT (" DAMAGED ")",
    [CAY__Q_LAYERS_OF] = "SELECT coalesce(" BOX_LAYERS ",'[]'),provider FROM sandboxes WHERE id=?1",
    [CAY__Q_LAYER_USED] =
        "SELECT ?1 IN (" IN_USE ") OR " DAMAGED
        " OR EXISTS(SELECT 1 FROM notes WHERE space='manifest' AND (key=?1 OR instr(value,?1)))",
    [CAY__Q_MERGE_SNAPS] = "UPDATE snapshots SET layers=?2||substr(layers,length(?1)+1)"
                           " WHERE state='ready' AND substr(layers,1,length(?1)+1)=?1||','",
    [CAY__Q_MERGE_BOXES] =
        "UPDATE sandboxes SET spec=json_set(spec,'$.layers',json(?2||substr(" BOX_LAYERS
        ",length(?1)+1))), version=version+1"
        " WHERE substr(" BOX_LAYERS ",1,length(?1)+1)=?1||','"
        " AND CASE WHEN ?3 IS NULL THEN state='stopped' AND reason<>'starting' ELSE id=?3 END",
    [CAY__Q_MERGE_LEFT] =
        "SELECT (SELECT count(*) FROM snapshots WHERE substr(layers,1,length(?1)+1)=?1||',')"
        "+(SELECT count(*) FROM sandboxes WHERE substr(" BOX_LAYERS ",1,length(?1)+1)=?1||',')",
    [CAY__Q_LAYER_JOB_PUT] = "INSERT INTO jobs(kind,subject,detail,created_ms) VALUES(?1,?2,?3,?4)"
                             " ON CONFLICT(kind,subject) DO UPDATE SET detail=excluded.detail",
    [CAY__Q_LAYER_JOB_DROP] = "DELETE FROM jobs WHERE kind=?1 AND subject=?2",
    [CAY__Q_LAYER_JOB_LIST] =
        "SELECT kind,subject,detail,created_ms FROM jobs WHERE kind=?1 ORDER BY seq",
    [CAY__Q_UNSETTLED] = "SELECT (EXISTS(SELECT 1 FROM jobs WHERE kind<>'merged')"
                         " OR EXISTS(SELECT 1 FROM snapshots WHERE durable=0 AND boot=?1))"
                         "+2*(EXISTS(SELECT 1 FROM jobs WHERE kind='undo') OR EXISTS(SELECT 1 FROM "
                         "snapshots WHERE state='making'))",
    [CAY__Q_TPL_INSERT] =
        "INSERT INTO "
        "templates(id,tenant,base,source,digest,layers,config,shared,bytes,files,created_ms)"
        " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)",
    [CAY__Q_TPL_REMOVE] = "DELETE FROM templates WHERE id=?1",
    [CAY__Q_TPL_SHARE] = "UPDATE templates SET shared=CAST(?2 AS INTEGER) WHERE id=?1",
    [CAY__Q_TPL_LAYERS] = "SELECT layers FROM templates WHERE id=?1",
    [CAY__Q_TPL_LIST] = "SELECT id,tenant,base,source,digest,layers,config,"
                        "(SELECT json_group_array(name) FROM (SELECT name FROM template_names n "
                        "WHERE n.id=t.id ORDER BY name)),"
                        "shared,bytes,files,created_ms,"
                        "(SELECT count(*) FROM sandboxes b WHERE CASE WHEN json_valid(b.spec) THEN "
                        "json_extract(b.spec,'$.template_id') END=t.id)"
                        " FROM templates t WHERE seq>?1 AND (?2 IS NULL OR tenant=?2 OR shared) "
                        "AND (?3 IS NULL OR id=?3) ORDER BY seq",
    [CAY__Q_TPL_SEQ] = BEHIND("templates"),
    [CAY__Q_TPL_RESOLVE] =
        "SELECT DISTINCT t.id FROM templates t WHERE (?3 IS NULL OR t.tenant=?3 OR t.shared) AND"
        " ((t.id>=?1 AND t.id<?1||char(0x10ffff)) OR ((t.tenant=coalesce(?3,'default') OR "
        "t.shared) AND"
        " EXISTS(SELECT 1 FROM template_names n WHERE n.id=t.id AND n.name=?1)))"
        " ORDER BY t.tenant<>coalesce(?3,'default'),t.seq LIMIT ?2",
    [CAY__Q_TPL_NAME] = "INSERT INTO template_names(tenant,name,id) VALUES(?1,?2,?3) ON "
                        "CONFLICT(tenant,name) DO UPDATE SET id=excluded.id",
    [CAY__Q_TPL_NAMES] = "SELECT count(*) FROM template_names WHERE id=?1",
    [CAY__Q_TPL_UNNAME] = "DELETE FROM template_names WHERE tenant=?1 AND name=?2",
    [CAY__Q_TPL_UNNAME_ALL] = "DELETE FROM template_names WHERE id=?1",
    [CAY__Q_MERGE_TPLS] = "UPDATE templates SET layers=?2||substr(layers,length(?1)+1) WHERE "
                          "substr(layers,1,length(?1)+1)=?1||','",
    [CAY__Q_TENANT_PUT] = "INSERT INTO tenants(name,sandboxes," CAY__CPU_MILLI
                          ",memory,disk,creates,templates,created_ms) "
                          "VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
    [CAY__Q_TENANT_SET] =
        "UPDATE tenants SET sandboxes=?2, " CAY__CPU_MILLI "=?3, memory=?4, disk=?5, "
        "creates=?6, templates=?7 WHERE name=?1",
    [CAY__Q_TENANT_DROP] = "DELETE FROM tenants WHERE name=?1",
    [CAY__Q_TENANT_BUSY] =
        "SELECT (SELECT count(*) FROM sandboxes WHERE tenant=?1),(SELECT count(*) FROM snapshots "
        "WHERE tenant=?1),(SELECT count(*) FROM templates WHERE tenant=?1)",
    [CAY__Q_TENANT_LIST] = TENANTS " WHERE ?1 IS NULL OR t.name=?1 GROUP BY t.name ORDER BY t.name",
    [CAY__Q_TENANT_GET] = "SELECT sandboxes," CAY__CPU_MILLI
                          ",memory,disk,creates,spent,spent_ms FROM tenants WHERE name=?1",
    [CAY__Q_TENANT_USES] = "SELECT count(*)," LIVE(CAY__CPU_MILLI) "," LIVE(
        "memory") ",total(b.disk) FROM sandboxes b WHERE b.tenant=?1 AND b.state<>'deleting'",
    [CAY__Q_TENANT_LAYERS] = "SELECT templates," LAYER_BYTES("?1") " FROM tenants WHERE name=?1",
    [CAY__Q_TENANT_SPEND] = "UPDATE tenants SET spent=?2, spent_ms=?3 WHERE name=?1",
    [CAY__Q_KEYS_DROP] = "DELETE FROM keys WHERE tenant=?1",
    [CAY__Q_KEYS_OF_BOX] = "DELETE FROM keys WHERE sandbox=?1 AND sandbox<>''",
    [CAY__Q_KEY_PUT] =
        "INSERT INTO "
        "keys(id,hash,tenant,scope,name,sandbox,path,port,created_ms,expires_ms,revoked_ms)"
        " SELECT ?1,?2,name,?4,?5,?6,?7,?8,?9,?10,0 FROM tenants WHERE name=?3",
    [CAY__Q_KEY_GET] = "SELECT " KEY_COLUMNS " FROM keys WHERE id=?1",
    [CAY__Q_KEY_LIST] =
        "SELECT " KEY_COLUMNS " FROM keys WHERE ?1 IS NULL OR tenant=?1 ORDER BY created_ms,id",
    [CAY__Q_KEY_SWEEP] = "DELETE FROM keys WHERE scope IN('session','login') AND ((expires_ms>0 "
                         "AND expires_ms<?1) OR (revoked_ms>0 AND revoked_ms<?1))",
    [CAY__Q_KEY_REVOKE] =
        "UPDATE keys SET revoked_ms=CASE revoked_ms WHEN 0 THEN ?2 ELSE revoked_ms END WHERE id=?1",
    [CAY__Q_KEY_USED] = "UPDATE keys SET used_ms=max(used_ms,?2) WHERE id=?1",
    [CAY__Q_ONCE_FIND] = "SELECT id FROM sandboxes WHERE tenant=?1 AND once=?2",
    [CAY__Q_ANSWER_PUT] =
        "INSERT INTO answers(tenant,route,key,request,owner,status,type,body,expires_ms) "
        "VALUES(?1,?2,?3,?4,?5,0,'',x'',?6)",
    [CAY__Q_ANSWER_GET] = "SELECT request,owner,status,type,body,expires_ms FROM answers WHERE "
                          "tenant=?1 AND route=?2 AND key=?3",
    [CAY__Q_ANSWER_TAKE] =
        "UPDATE answers SET status=iif(?7,status,0), type=iif(?7,type,''), body=iif(?7,body,x''), "
        "request=?4, owner=?5, expires_ms=?6 WHERE tenant=?1 AND route=?2 AND key=?3",
    [CAY__Q_ANSWER_END] = "UPDATE answers SET owner=?9, status=?5, type=?6, body=?7, expires_ms=?8 "
                          "WHERE tenant=?1 AND route=?2 AND key=?3 AND owner=?4",
    [CAY__Q_ANSWER_DROP] =
        "DELETE FROM answers WHERE tenant=?1 AND route=?2 AND key=?3 AND owner=?4",
    [CAY__Q_ANSWER_SWEEP] = "DELETE FROM answers WHERE expires_ms<?1",
    [CAY__Q_JOB_PUT] = "INSERT INTO "
                       "tasks(id,kind,subject,tenant,key,detail,state,due_ms,attempts,most,"
                       "backoff_ms,fence,owner,lease_ms,error,created_ms,changed_ms)"
                       " VALUES(?1,?2,?3,?4,?5,?6,'waiting',?7,0,?8,?9,0,'',0,'',?10,?10)",
    [CAY__Q_JOB_SAME] =
        "SELECT id FROM tasks WHERE kind=?1 AND key=?2 AND state IN('waiting','running')",
    [CAY__Q_JOB_REPLACE] = "UPDATE tasks SET state='canceled', fence=fence+1, changed_ms=?3 WHERE "
                           "kind=?1 AND key=?2 AND state IN('waiting','running')",
    [CAY__Q_JOB_DUE] = TASKS_DUE "ORDER BY at LIMIT 1",
    [CAY__Q_JOB_TURN] = TASKS_DUE
    "d WHERE (SELECT count(*) FROM tasks r WHERE r.state='running' AND r.lease_ms>?1 AND "
    "r.tenant=d.tenant AND r.owner=?3)<"
    "CASE WHEN (SELECT count(*) FROM tasks r WHERE r.state='running' AND r.lease_ms>?1 AND "
    "r.owner=?3)<?5 THEN ?4 ELSE 1 END ORDER BY (SELECT count(*) FROM tasks r WHERE "
    "r.state='running' AND r.lease_ms>?1 AND r.tenant=d.tenant AND " TASK_KINDS "),"
    "(SELECT coalesce(max(e.changed_ms),0) FROM tasks e WHERE e.tenant=d.tenant AND e.attempts>0 "
    "AND e.state<>'waiting' AND " TASK_KINDS "),at LIMIT 1",
    [CAY__Q_JOB_WAITING] =
        "SELECT count(*) FROM tasks WHERE state='waiting' AND kind=?1 AND tenant=?2",
    [CAY__Q_JOB_NEXT] =
        "SELECT min(at) FROM (SELECT min(due_ms) AS at FROM tasks WHERE state='waiting' "
        "AND " TASK_KINDS
        " UNION ALL SELECT min(lease_ms) FROM tasks WHERE state='running' AND " TASK_KINDS ")",
    [CAY__Q_JOB_BURY] = "UPDATE tasks SET state='dead', fence=fence+1, error=CASE error WHEN '' "
                        "THEN 'whoever had it did not come back' ELSE error END, changed_ms=?1"
                        " WHERE state='running' AND lease_ms<=?1 AND attempts>=most",
    [CAY__Q_JOB_TAKE] = "UPDATE tasks SET state='running', attempts=attempts+1, fence=fence+1, "
                        "owner=?2, lease_ms=?3, changed_ms=?4 WHERE id=?1",
    [CAY__Q_JOB_END] =
        "UPDATE tasks SET state=?3, lease_ms=CASE ?3 WHEN 'running' THEN ?4 ELSE 0 END, "
        "due_ms=CASE ?3 WHEN 'waiting' THEN ?4 ELSE due_ms END,"
        " error=coalesce(?5,error), changed_ms=?6 WHERE id=?1 AND fence=?2 AND state='running'",
    [CAY__Q_JOB_CANCEL] =
        "UPDATE tasks SET state='canceled', fence=fence+1, changed_ms=?4 WHERE state "
        "IN('waiting','running')"
        " AND CASE WHEN ?1 IS NOT NULL THEN id=?1 ELSE subject=?3 AND (?2 IS NULL OR kind=?2) END",
    [CAY__Q_JOB_STATE] = "SELECT state FROM tasks WHERE id=?1",
    [CAY__Q_JOB_REPLAY] =
        "UPDATE tasks SET state='waiting', attempts=0, due_ms=?2, error='', fence=fence+1, "
        "changed_ms=?2 WHERE id=?1 AND state IN('dead','canceled')",
    [CAY__Q_JOB_SWEEP] = "DELETE FROM tasks WHERE state IN('done','canceled') AND changed_ms<?1",
    [CAY__Q_JOB_LIST] =
        "SELECT 0," TASK_COLUMNS " FROM tasks WHERE (?1 IS NULL OR state=?1) AND (?2 IS NULL OR "
        "kind=?2) AND (?3 IS NULL OR subject=?3)"
        " AND (?4 IS NULL OR tenant=?4) AND (?5 IS NULL OR id=?5) ORDER BY due_ms,seq LIMIT ?6",
    [CAY__Q_BOX_USES] = "SELECT tenant," CAY__CPU_MILLI ",memory,disk FROM sandboxes WHERE id=?1",
};

static int disk_full(const char *what, cay_err *err)
{
    return cay_fail_why(
        err, CAY_ENOSPACE, "store_full",
        "%s: the disk of the state directory is full; remove sandboxes or free space on it", what);
}

int cay__db_fail(cay__db *db, const char *what, cay_err *err)
{
    int sys = sqlite3_system_errno(db->sql);
    const char *text = sqlite3_errmsg(db->sql);
    switch (sqlite3_errcode(db->sql) & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return cay_fail_why(err, CAY_EBUSY, "store_busy",
                            "%s: another program holds the store; try again", what);
    case SQLITE_FULL: return disk_full(what, err);
    case SQLITE_NOMEM: return cay_fail(err, CAY_ENOSPACE, "%s: out of memory", what);
    case SQLITE_TOOBIG: return cay_fail(err, CAY_ETOOBIG, "%s: the record is too big", what);
    case SQLITE_CONSTRAINT: return cay_fail(err, CAY_EEXIST, "%s: %s", what, text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return cay_fail_why(
            err, CAY_ESYS, "store_damaged",
            "%s: store.db is damaged (%s); keep a copy, then run: sqlite3 store.db .recover", what,
            text);
    default: break;
    }
    if (sys == ENOSPC || sys == EDQUOT)
        return disk_full(what, err);
    if (sys) {
        errno = sys;
        return cay_fail_sys(err, "%s: %s", what, text);
    }
    return cay_fail(err, CAY_ESYS, "%s: %s", what, text);
}

int cay__db_query(cay__db *db, enum cay__statement q, sqlite3_stmt **out, cay_err *err)
{
    if (!db->stmt[q] && sqlite3_prepare_v3(db->sql, queries[q], -1, SQLITE_PREPARE_PERSISTENT,
                                           &db->stmt[q], NULL) != SQLITE_OK)
        return cay__db_fail(db, "read the store", err);
    *out = db->stmt[q];
    return 0;
}

void cay__db_done(sqlite3_stmt **st)
{
    if (*st) {
        sqlite3_reset(*st);
        sqlite3_clear_bindings(*st);
    }
    *st = NULL;
}

int cay__db_step(cay__db *db, sqlite3_stmt *st, const char *what, cay_err *err)
{
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;
    return cay__db_fail(db, what, err);
}

static int run_query(cay__db *db, enum cay__statement q, const char *what, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_query(db, q, &st, err));
    return cay__db_step(db, st, what, err);
}

static void roll_back(cay__db *db)
{
    if (!sqlite3_get_autocommit(db->sql)) /* some failures have rolled back already */
        run_query(db, CAY__Q_ROLLBACK, "", NULL);
}

static int commit_transaction(cay__db *db, cay_err *err)
{
    CAY_FAULT("store.before-commit");
    if (CAY_FAULT_FAILS("store.commit"))
        return cay_fail_sys(err, "commit to the store");
    if (CAY_FAULT_FAILS("store.full"))
        return disk_full("commit to the store", err);
    int rc = run_query(db, CAY__Q_COMMIT, "commit to the store", err);
    CAY_FAULT("store.committed");
    return rc;
}

/* synchronous cannot be changed inside a transaction. */
static int set_durable(cay__db *db, bool on, cay_err *err)
{
    if (db->full == on)
        return 0;
    int rc = run_query(db, on ? CAY__Q_FULL : CAY__Q_NORMAL, "set up the store", err);
    if (rc < 0) {
        db->full = -1;
        return rc;
    }
    db->full = on;
    return 0;
}

static int try_transaction(cay__db *db, unsigned how, int (*fn)(cay__db *, void *, cay_err *),
                           void *arg, cay_err *err)
{
    CAY_TRY(set_durable(db, how & CAY__TX_DURABLE, err));
    CAY_TRY(run_query(db, CAY__Q_BEGIN, "lock the store", err));
    int rc = fn(db, arg, err);
    if (rc == 0)
        rc = commit_transaction(db, err);
    if (rc < 0)
        roll_back(db);
    return rc;
}

int cay__db_write(cay__db *db, unsigned how, int (*fn)(cay__db *, void *, cay_err *), void *arg,
                  cay_err *err)
{
    cay_err own =
        CAY_ERR_INIT; /* what failed is looked at even when the caller does not want to know */
    pthread_mutex_lock(&db->lock);
    int rc = try_transaction(db, how, fn, arg, &own);
    if (rc == CAY_ENOSPACE && (how & CAY__TX_FREES) && cay__reserve_release(db->dir))
        rc = try_transaction(db, how, fn, arg, &own);
    pthread_mutex_unlock(&db->lock);
    if (rc < 0 && err)
        *err = own;
    if (rc == 0 && (how & CAY__TX_FREES))
        cay__reserve_make(db->dir);
    return rc;
}

/* A small file that holds disk space for bad times: see db.h. */
#define RESERVE    (8 << 20)
#define LEAVE_FREE (64 << 20) /* a disk with less than this is not made fuller */

void cay__reserve_make(int dir)
{
    struct stat st;
    struct statvfs fs;
    if (fstatat(dir, "reserve", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size >= RESERVE)
        return;
    if (fstatvfs(dir, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize < RESERVE + LEAVE_FREE)
        return;
    CAY_AUTOFD fd = openat(dir, "reserve", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && posix_fallocate(fd, 0, RESERVE) != 0 && ftruncate(fd, 0) < 0)
        unlinkat(dir, "reserve", 0);
}

bool cay__reserve_release(int dir)
{
    struct stat st;
    CAY_AUTOFD fd = openat(dir, "reserve", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_blocks > 0 && ftruncate(fd, 0) == 0;
}
