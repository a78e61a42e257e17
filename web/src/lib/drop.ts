// SPDX-License-Identifier: Apache-2.0
// What was dropped, directories with all that is in them. The list of it lives only as long as the event, so it is read at once.

export interface Dropped { path: string; file: File }
const MOST = 2000; // files of one drop

export async function dropped(data: DataTransfer | null): Promise<Dropped[]> {
  const files = [...(data?.files ?? [])].map(file => ({ path: file.name, file })), roots = [...(data?.items ?? [])].map(i => i.webkitGetAsEntry?.() ?? null);
  if (!roots.some(e => e?.isDirectory)) return files;
  const out: Dropped[] = [];
  for (const e of roots) if (e) await walk(e, '', out);
  return out;
}
async function walk(e: FileSystemEntry, above: string, out: Dropped[]): Promise<void> {
  if (out.length >= MOST) throw new Error(`more than ${MOST} files were dropped; send a tar instead`);
  if (e.isFile) { out.push({ path: above + e.name, file: await new Promise<File>((yes, no) => (e as FileSystemFileEntry).file(yes, no)) }); return; }
  const reader = (e as FileSystemDirectoryEntry).createReader();
  for (;;) { // a hundred at a time
    const some = await new Promise<FileSystemEntry[]>((yes, no) => reader.readEntries(yes, no));
    if (!some.length) return;
    for (const x of some) await walk(x, `${above}${e.name}/`, out);
  }
}
