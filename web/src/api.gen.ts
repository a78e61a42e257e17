// Made by web/tools/types.mjs from /api/v1/openapi.json: do not edit.

/** what went wrong */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string; // one line for people
  code: string; // decide by this one: ENOENT, …
  reason: string; // a stable word
  retry: string; // would the same request help: yes, no or unknown
  retry_after_ms?: number;
  errno?: number;
  info?: Record<string, unknown>;
  request: string; // the request's id: it is in the log
}

/** one isolated workspace */
export interface Sandbox {
  id?: string;
  name?: string;
  state?: "creating" | "running" | "paused" | "stopped" | "deleting" | "gone" | "damaged";
  reason?: string; // why it is in that state: killed, ttl, idle, oom, reboot, …
  provider?: string;
  isolation?: "none" | "process" | "rootless" | "root" | "vm" | null; // null while it does not run: it is known when it starts
  level?: number | null; // likewise
  template?: string;
  hostname?: string;
  user?: string;
  workdir?: string;
  path?: string; // where its files are on the host; to scope admin
  pid?: number; // of its init on the host; to scope admin
  created_ms?: number;
  changed_ms?: number;
  deadline_ms?: number;
  idle_ms?: number;
  on_expiry?: "kill" | "pause";
  auto_resume?: boolean;
  tenant?: string;
  from?: string; // the snapshot it stands on: the last one taken, or the one it was made, forked or put back from; one that was forgotten since, as is that of a saved template, is told still
  network?: string; // what it may reach: off, rules or all; without, that is not known
  settings?: Record<string, string>; // those of its template, as they are in it
  boot_id?: string; // its own, new at each start; of one that runs, and not in lists
  labels?: Record<string, string>;
  metadata?: Record<string, unknown>;
  limits?: Limits;
  layers?: Layer[];
}

/** 0 or left out: the default */
export interface Limits {
  memory?: number | "unlimited"; // bytes; 2 GiB
  swap?: number | "unlimited"; // bytes; none
  cpu_milli?: number | "unlimited"; // thousandths of a CPU; 2000
  pids?: number | "unlimited"; // processes and threads; 512
  disk?: number | "unlimited"; // bytes; 10 GiB
  inodes?: number | "unlimited"; // files; 1,000,000
  nofile?: number | "unlimited"; // descriptors of a process; 4096
  io_read?: number | "unlimited"; // bytes per second
  io_write?: number | "unlimited"; // bytes per second
}

/** one isolation layer or feature as found */
export interface Layer {
  name?: string;
  state?: string; // on, soft or off
  why?: string;
  remedy?: string;
}

/** a sandbox as it is wanted; all may be left out */
export interface Create {
  template?: string; // what it starts from; host
  name?: string; // a label for people
  hostname?: string;
  user?: string; // default user of its processes
  workdir?: string; // /workspace
  env?: Record<string, string>; // for every process
  labels?: Record<string, string>;
  metadata?: Record<string, unknown>; // kept for the caller
  limits?: Limits;
  isolation?: "none" | "process" | "rootless" | "root" | "vm"; // least that is accepted
  require?: string[]; // features by name: memory-limit, disk-quota, …
  ttl_ms?: number | "unlimited";
  idle_ms?: number | "unlimited";
  on_expiry?: "kill" | "pause";
  net?: unknown; // a list of rules, or a policy
  secrets?: SecretUse[];
  from?: string; // a snapshot to stand on
  manifest?: Record<string, unknown>; // what is put into it
  services?: Record<string, unknown>; // what is kept running in it, by name; a manifest's come on top
  sudo?: boolean; // its users may become others inside
  settings?: Record<string, string>; // of those that its template has, by name; `permissions` of claude and codex
  checkpoint?: number; // keep that many automatic snapshots
  volumes?: VolumeUse[];
  durable?: boolean;
  no_pin?: boolean;
  auto_resume?: boolean; // it is resumed when it is used
  provider?: string;
  options?: Record<string, string>; // what only this provider knows, as image of docker; all but image, pull and read_only to scope admin
  tenant?: string; // whose it is; to scope admin
  root?: string; // a directory of the host; to scope admin
  on?: string; // a directory of the host; to scope admin
  mounts?: Mount[]; // to scope admin
}

/** a secret that never enters */
export interface SecretUse {
  name: string;
  source: string; // store:NAME or fill:NAME; others to scope admin
  destination?: string;
}

/** a named volume shown inside */
export interface VolumeUse {
  name: string;
  target: string; // absolute path inside
  rw?: boolean;
}

/** a directory of the host shown inside */
export interface Mount {
  source: string; // directory on the server's host
  target: string; // absolute path inside
  rw?: boolean;
}

/** what is left out stays as it is */
export interface SandboxPatch {
  name?: string;
  labels?: Record<string, string>; // all of them, instead of those it has
  metadata?: Record<string, unknown>;
  ttl_ms?: number | "unlimited"; // time left, from now
  idle_ms?: number | "unlimited";
}

/** no member */
export interface Nothing {

}

/** what is left out stays as it is */
export interface Extend {
  ttl_ms?: number | "unlimited"; // time left, from now
  idle_ms?: number | "unlimited";
}

/** several ways on from one point */
export interface Fork {
  count?: number; // how many; 1
  name?: string; // of the first; others get -2, -3, …
  labels?: Record<string, string>; // instead of those it has
  ttl_ms?: number | "unlimited";
}

/** a workspace that is kept */
export interface Snapshot {
  id?: string;
  sandbox?: string;
  parent?: string;
  label?: string;
  method?: string;
  provider?: string;
  template?: string;
  digest?: string;
  durable?: boolean;
  maybe_incomplete?: boolean;
  automatic?: boolean;
  created_ms?: number;
  bytes?: number;
  files?: number;
  frozen_us?: number;
  total_us?: number;
  depth?: number;
  users?: number;
  metadata?: Record<string, unknown>;
}

/** the way back */
export interface Undo {
  to?: string; // a snapshot; without it the last one
}

/** what it uses now, and used so far */
export interface Usage {
  cpu_us?: number;
  memory?: number;
  memory_peak?: number;
  pids?: number;
  disk?: number;
  inodes?: number;
  oom_kills?: number;
  pids_hits?: number;
  net_rx?: number;
  net_tx?: number;
}

/** what was used at a moment */
export interface UsagePoint {
  time_ms?: number;
  cpu_milli?: number; // thousandths of a CPU, since the moment before
  memory?: number;
  disk?: number;
  net_rx?: number; // bytes a second that came in, since the moment before
  net_tx?: number; // bytes a second that left, likewise
}

export interface Waited {
  state?: string; // as it is by then
}

export interface Started {
  id?: string;
  pid?: number; // as seen inside
}

/** a command as it is wanted */
export interface Spawn {
  argv?: string[]; // the command and its words; or shell
  shell?: string; // one line for the sandbox's shell
  login?: boolean; // with shell: a login shell
  env?: Record<string, string>;
  env_mode?: "add" | "only"; // only: nothing of the sandbox's
  cwd?: string;
  cwd_hex?: string; // all its bytes, when it is not UTF-8
  user?: string; // name or uid
  profile?: "default" | "root";
  tty?: boolean;
  cols?: number;
  rows?: number;
  timeout_ms?: number; // TERM to all it started, KILL one second later
  tag?: string; // a name to find it by
  labels?: Record<string, string>;
  ring_bytes?: number; // output kept of each stream: 4096 to 16777216; 1 MiB
  stdin?: "null" | "pipe";
  on_full?: "drop" | "block"; // block: it waits for readers instead of dropping its oldest output
}

/** one process; it has `exit` once it ended */
export interface Process {
  id?: string; // empty when it was not started through the API
  tag?: string;
  pid?: number;
  ppid?: number;
  user?: string;
  state?: "running" | "sleeping" | "waiting" | "stopped" | "zombie" | "ended" | "other";
  tty?: boolean;
  cpu_us?: number;
  rss?: number;
  started_ms?: number;
  ended_ms?: number;
  command?: string;
  labels?: Record<string, string>;
  exit?: Exit;
}

/** how it ended */
export interface Exit {
  code?: number;
  signal?: number;
  reason?: string;
  cpu_us?: number;
  max_rss?: number;
  lost_stdout?: number;
  lost_stderr?: number;
}

/** how it ended, and what it printed */
export interface Result {
  code?: number;
  signal?: number;
  reason?: string;
  cpu_us?: number;
  max_rss?: number;
  lost_stdout?: number;
  lost_stderr?: number;
  stdout?: string;
  stdout_base64?: string; // instead, when it is not UTF-8
  stderr?: string;
  stderr_base64?: string; // instead, when it is not UTF-8
  truncated?: boolean; // more came than max_output
}

/** a command to its end */
export interface Run {
  argv?: string[]; // the command and its words; or shell
  shell?: string; // one line for the sandbox's shell
  login?: boolean; // with shell: a login shell
  env?: Record<string, string>;
  env_mode?: "add" | "only"; // only: nothing of the sandbox's
  cwd?: string;
  cwd_hex?: string; // all its bytes, when it is not UTF-8
  user?: string; // name or uid
  profile?: "default" | "root";
  tty?: boolean;
  cols?: number;
  rows?: number;
  timeout_ms?: number; // TERM to all it started, KILL one second later
  tag?: string; // a name to find it by
  labels?: Record<string, string>;
  ring_bytes?: number; // output kept of each stream: 4096 to 16777216; 1 MiB
  input?: string; // its standard input
  input_base64?: string; // the same for bytes that are no text
  max_output?: number; // bytes of each stream that are told; 16 MiB
}

/** exit is there when it ended */
export interface ProcessWaited {
  ended?: boolean;
  exit?: Exit;
}

export interface Signal {
  signal?: string | number; // a name or number; TERM
  scope?: "one" | "group" | "tree" | "below"; // below: all it started, not itself
}

/** of a terminal */
export interface Size {
  cols: number;
  rows: number;
}

/** an ordinary process with the tag shell:NAME */
export interface Shell {
  name?: string;
  id?: string; // of its process
  pid?: number;
  user?: string;
  started_ms?: number;
}

/** what follows the name matters only when it is started */
export interface ShellOpen {
  name: string; // 1 to 32 letters, digits, '.', '_' or '-'
  login?: boolean;
  env?: Record<string, string>;
  cwd?: string;
  cwd_hex?: string; // all its bytes, when it is not UTF-8
  user?: string;
  profile?: "default" | "root";
}

/** one command in it */
export interface ShellRun {
  line: string; // text for the shell, of any number of lines
  timeout_ms?: number; // then it is interrupted as by Ctrl-C, and the shell goes on
  max_output?: number; // bytes of each stream that are told; 16 MiB
}

/** a file, directory or link */
export interface File {
  path?: string;
  path_hex?: string; // all its bytes, when it is not UTF-8
  type?: "file" | "directory" | "link" | "other";
  size?: number;
  mode?: string;
  uid?: number;
  gid?: number;
  mtime_ns?: number;
  inode?: number;
  nlink?: number;
  target?: string; // of a link
  target_hex?: string; // all its bytes, when it is not UTF-8
}

export interface Match {
  path?: string;
  path_hex?: string; // all its bytes, when it is not UTF-8
  line?: number;
  column?: number; // byte, from 1
  text?: string; // the line, cut at 4096 bytes
  text_base64?: string; // instead, when it is not UTF-8
}

export interface Grep {
  path: string; // where to look
  path_hex?: string; // all its bytes, when it is not UTF-8
  pattern: string; // a POSIX extended regular expression
  plain?: boolean; // it is plain text
  ignore_case?: boolean;
  include?: string; // only files whose name fits this pattern
  max?: number; // matches; 10000
}

export interface Mkdir {
  path: string;
  path_hex?: string; // all its bytes, when it is not UTF-8
  mode?: string; // 0755
  parents?: boolean; // make missing ones above it; one that is there is fine
}

export interface Rename {
  from: string;
  from_hex?: string; // all its bytes, when it is not UTF-8
  to: string;
  to_hex?: string; // all its bytes, when it is not UTF-8
}

export interface Chmod {
  path: string;
  path_hex?: string; // all its bytes, when it is not UTF-8
  mode: string;
}

/** what is left out stays as it is */
export interface Chown {
  path: string;
  path_hex?: string; // all its bytes, when it is not UTF-8
  uid?: number;
  gid?: number;
}

export interface Symlink {
  target: string;
  target_hex?: string; // all its bytes, when it is not UTF-8
  path: string;
  path_hex?: string; // all its bytes, when it is not UTF-8
}

export interface Names {
  items?: string[];
}

export interface Patched {
  lines?: string[]; // "Created a", "Updated b", …
}

export interface Patch {
  patch: string; // *** Begin Patch …
  root?: string; // paths must stay below it; the working directory
  root_hex?: string; // all its bytes, when it is not UTF-8
  cwd?: string;
  cwd_hex?: string; // all its bytes, when it is not UTF-8
  user?: string;
  dry?: boolean; // would it apply?
  exclusive?: boolean; // a file that is there is not made anew
}

export interface Unpacked {
  files?: number;
  directories?: number;
  links?: number;
  bytes?: number;
}

/** somebody inside listens */
export interface Port {
  port?: number;
  address?: string; // as bound inside
  pid?: number; // inside; 0: not known
}

/** a port that a token opens */
export interface Exposed {
  port?: number;
  token?: string; // told once
  created_ms?: number;
  expires_ms?: number;
  url?: string; // where the preview is; with ?cay_token=TOKEN it opens
}

/** a token for a port */
export interface Expose {
  ttl_ms?: number; // how long the token holds; a day
}

/** where a port is that the provider publishes */
export interface Endpoint {
  port?: number; // inside
  host?: string; // an address or name of the machine that runs it
  host_port?: number;
  tls?: boolean;
}

/** a command that is kept running */
export interface Service {
  name?: string;
  state?: "waiting" | "starting" | "ready" | "unhealthy" | "backoff" | "done" | "failed" | "stopping" | "stopped";
  ready?: boolean; // it serves, or has done what it is for
  pid?: number; // inside
  port?: number;
  restarts?: number;
  code?: number; // how it ended last; -1: it never did
  reason?: string;
  process?: string; // whose output is the service's, through all restarts; its tag is the name
  since_ms?: number; // in this state
  ready_ms?: number;
  ready_after_ms?: number;
  wait_ms?: number; // backoff: from since_ms to its next start
}

/** what is done to services */
export interface ServiceAct {
  op: "start" | "stop" | "restart";
  names?: string[]; // which; all without it
}

export interface ServicesWaited {
  ready?: boolean; // false: the time is over, or one is not going to be
  items?: Service[];
}

/** what a manifest would put into a sandbox */
export interface ManifestSum {
  root?: string; // where entries go
  entries?: number;
  files?: number;
  bytes?: number; // without those that are fetched
  ephemeral?: number; // entries that are in no snapshot
  mounts?: number;
  fetched?: number; // repositories and remote files; nothing was fetched for this
  tree?: string; // for people
}

/** what was put into a sandbox as it was made; without a manifest nothing */
export interface ManifestGiven {
  root?: string; // where its entries are
  entries?: number; // of the top
  variables?: number; // of the environment
  tree?: string; // for people; where entries came from is not in it
}

/** a snapshot to be taken */
export interface SnapshotSpec {
  label?: string; // a name that no other snapshot has
  metadata?: Record<string, unknown>;
  quiet?: boolean; // refuse while processes run
  stop?: boolean; // where processes cannot be frozen, stop them by signals meanwhile
}

/** another name for a snapshot */
export interface SnapshotLabel {
  label: string; // a name that no other snapshot has; empty: none
}

/** a snapshot is forgotten */
export interface SnapshotGone {
  deferred?: boolean; // others stand on its files, which stay until the last of them is gone
}

/** one file that is not as it was */
export interface Change {
  kind?: string; // A added, M modified, D deleted, T of another type, R a renamed directory
  path?: string;
  path_hex?: string; // all its bytes, when it is not UTF-8
  from?: string;
  from_hex?: string; // all its bytes, when it is not UTF-8
  old?: ChangeSide | null;
  new?: ChangeSide | null;
  content?: boolean;
  mode?: boolean;
  owner?: boolean;
  old_digest?: string; // SHA-256 of what the file held, or of where the link led
  patch?: string;
  patch_base64?: string; // instead, when it is not UTF-8
}

/** what it was, or is */
export interface ChangeSide {
  type?: string;
  mode?: string;
  size?: number;
}

/** a directory that outlives sandboxes */
export interface Volume {
  name?: string;
  provider?: string;
  limit?: number; // bytes; 0: none
  quota?: string; // on, soft or none
  used?: number;
  inodes?: number;
  created_ms?: number;
  users?: string[]; // the sandboxes that have it
}

/** a volume to be made */
export interface VolumeSpec {
  name: string;
  provider?: string;
  limit?: number; // bytes; 0: none
  hard?: boolean; // the kernel has to hold the limit
}

/** what a sandbox starts from */
export interface Template {
  name?: string; // what a request for a sandbox says: its first name, else its id
  about?: string;
  id?: string;
  names?: string[];
  tenant?: string;
  shared?: boolean; // other tenants may use it
  base?: string; // what is below its layers: image, which is nothing, or host
  source?: string;
  digest?: string;
  layers?: string[];
  config?: Record<string, unknown>;
  bytes?: number;
  files?: number;
  users?: number; // sandboxes that were made from it
  created_ms?: number;
}

/** a template of a sandbox's files as they are */
export interface TemplateCreate {
  from: string; // a sandbox, of which a snapshot is taken for it, or a snapshot
  names?: string[];
  config?: Record<string, unknown>; // what its sandboxes are told; left out: what the sandbox had from its own template
  hidden?: boolean; // not for other tenants; a tenant's own never are
}

/** a template that is made by steps */
export interface Build {
  id?: string;
  tenant?: string;
  state?: string; // waiting, building, ready, failed, canceled or lost
  names?: string; // of the template, between blanks
  template?: string; // once it is ready
  sandbox?: string; // in which a step failed, with keep_failed
  reason?: string;
  error?: string;
  step?: number;
  steps?: number;
  cached?: number;
  started_ms?: number;
  ended_ms?: number;
}

/** an image to get from its registry */
export interface TemplatePull {
  image: string; // [HOST[:PORT]/]NAME[:TAG][@DIGEST]
  names?: string[]; // of the template; left out: what the image is called
  platform?: string; // os/architecture; left out: this machine's
  hidden?: boolean; // not for other tenants; a tenant's own never are
}

/** what is to be different of a template; what is not named stays */
export interface TemplatePatch {
  name?: string; // one more name, which goes from the one that had it
  shared?: boolean; // other tenants may use it; said by keys of scope admin or tenant default
}

/** sandboxes that are ready */
export interface Pool {
  id?: string; // subject of its jobs
  template?: string;
  tenant?: string; // who looks the template up
  low?: number; // with fewer ready, more are made
  high?: number; // until so many are
  ready?: number;
  making?: number;
  error?: string; // why the last one could not be made
}

/** a pool as it is wanted */
export interface PoolPut {
  template: string; // a name, looked up each time, or an id
  tenant?: string; // who looks it up; default
  low?: number; // 1
  high: number;
}

/** who a tenant's pulls are to a registry */
export interface RegistryLogin {
  username: string;
  password: string; // goes in, and is never told
}

/** that there is a log-in; who and what is never told */
export interface Registry {
  registry?: string;
  tenant?: string;
  changed_ms?: number;
}

/** how much was removed */
export interface Removed {
  removed?: number; // how many
}

/** a directory that builds keep for the next one */
export interface BuildCache {
  id?: string; // as the Dockerfile has it, else its target
  volume?: string; // that holds it
  tenant?: string;
  bytes?: number;
  limit?: number;
  used_ms?: number; // when a build last had it; 0: not known
}

/** one of the two */
export interface SecretValue {
  value?: string;
  value_base64?: string;
}

/** that there is one; its value is never told */
export interface Secret {
  name?: string;
  changed_ms?: number;
}

/** other secrets for a sandbox */
export interface SecretUses {
  secrets: SecretUse[]; // in place of all it has
  net?: Record<string, unknown>; // a policy beside them; the rules that hold
}

/** what it may reach */
export interface HoldingPolicy {
  revision?: number;
  policy?: Record<string, unknown>; // mode, rules, rate_up, rate_down, connections, bindings
}

/** the policy that holds has this number */
export interface Revision {
  revision?: number; // 0: it is stopped, and takes it up when it starts
}

/** rules to be added */
export interface Rules {
  rules: string[]; // [!][SCHEME://]TARGET[:PORT[-PORT]], or a preset
  ttl_ms?: number; // they end after that; 0: they stay
}

/** may it be reached, and which rule says so */
export interface Verdict {
  host?: string;
  port?: number;
  allow?: boolean;
  reason?: string;
  rule?: string;
  range?: string;
  proto?: string;
  remedy?: string;
}

/** who answers */
export interface Version {
  version?: string;
  api?: string;
}

/** how strong the wall is here, layer by layer, with remedies */
export interface Doctor {
  version?: string;
  kernel?: string;
  machine?: string;
  home?: string;
  level?: number;
  isolation?: string;
  mode?: string;
  time_ms?: number; // when it was looked at
  took_us?: number; // and how long that took
  spawn_us?: number; // a bare spawn of true here, the yardstick for what a command takes; tried every ten minutes at most
  layers?: Layer[];
}

/** how quick this host is, tried now */
export interface Speed {
  create_us?: number; // until a sandbox was there
  exec_us?: number; // `true` in it, started and waited for; the median of nine
  remove_us?: number; // until it was gone
  spawn_us?: number; // `true` beside it, without a sandbox; the median of nine
  time_ms?: number;
}

/** each layer as it was tried in a sandbox made for it */
export interface Walls {
  time_ms?: number;
  took_us?: number; // all of them, with the making and removing of a sandbox
  checks?: Wall[];
}

/** a layer as it was tried */
export interface Wall {
  name?: string; // as in layers of GET /doctor
  ok?: boolean; // it showed itself
  found?: string; // for people
  took_us?: number;
}

/** what a tenant has, and may have */
export interface Share {
  tenant?: string;
  used?: Quota;
  most?: Quota;
}

/** 0 in `most`: no bound */
export interface Quota {
  sandboxes?: number;
  cpu_milli?: number;
  memory?: number;
  disk?: number;
  creates_per_min?: number;
  templates?: number; // bytes of its templates' layers
}

/** a new key */
export interface KeyMade {
  id?: string;
  key?: string; // told this once
}

/** a key as it is wanted */
export interface KeyCreate {
  tenant?: string; // another one: scope admin
  scope?: "port" | "file" | "sandbox" | "tenant" | "admin"; // tenant; a key that is no admin's makes narrower ones than itself
  name?: string;
  sandbox?: string; // with sandbox, port and file
  path?: string; // with file
  port?: number; // with port
  ttl_ms?: number; // until it expires; 0: never
}

/** what opens something, without its secret */
export interface Key {
  id?: string; // 8 hex digits
  tenant?: string;
  scope?: "login" | "port" | "file" | "sandbox" | "tenant" | "admin" | "session";
  name?: string;
  sandbox?: string;
  path?: string;
  port?: number;
  from?: string; // of a session: the key it stands for, and dies with; without, it came by a link
  created_ms?: number;
  expires_ms?: number;
  revoked_ms?: number;
  used_ms?: number; // when it last opened something, to the minute; left out: never yet
}

/** who shares this machine */
export interface Tenant {
  name?: string;
  most?: TenantQuota;
  used?: TenantQuota;
  created_ms?: number;
}

/** what all sandboxes of a tenant may have, or have, together */
export interface TenantQuota {
  sandboxes?: number; // 0: no bound
  cpu_milli?: number;
  memory?: number;
  disk?: number;
  creates_per_min?: number;
  templates?: number; // bytes of its templates' layers, each counted once
}

/** a tenant as it is wanted */
export interface TenantCreate {
  name: string;
  most?: TenantQuota;
}

/** other bounds; those not named stay */
export interface TenantPatch {
  most: TenantQuota;
}

/** work that outlives who left it */
export interface Job {
  id?: string;
  kind?: string;
  subject?: string;
  tenant?: string;
  key?: string;
  detail?: Record<string, unknown>;
  state?: string; // waiting, running, done, dead or canceled
  due_ms?: number;
  attempts?: number;
  most?: number;
  error?: string; // of the last attempt
  created_ms?: number;
  changed_ms?: number;
}

/** what to do to a sandbox later; takes the place of one of the same kind */
export interface JobCreate {
  kind: "pause" | "kill" | "remove";
  sandbox: string; // what it is done to
  due_ms?: number; // wall clock; left out: now
  in_ms?: number; // instead: so long from now
}

/** one thing that was done, or refused */
export interface AuditLine {
  seq?: number;
  time_ms?: number;
  actor?: string; // key:ID, tenant:NAME, uid:N
  tenant?: string;
  action?: string;
  object?: string;
  verdict?: string; // ok, refused or failed
  peer?: string;
  request?: string; // X-Request-Id of its answer
  status?: number;
  us?: number; // how long it took
  hash?: string;
}

/** do all lines follow each other */
export interface AuditProof {
  sound?: boolean;
  first?: number;
  last?: number;
  torn?: number; // lines that a crash cut
  dropped?: number; // lines that were only counted
  head?: string;
  why?: string;
}
