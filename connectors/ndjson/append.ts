import type { FileHandle } from 'node:fs/promises';
import { openCurrentFile } from './current-file.ts';
import { openFolders, syncFolders } from './folder.ts';

/**
 * Appends whole lines to the current file of the folder `parts` below `root`; they are durable when it resolves. When
 * it rejects, some may be there. `now` is epoch ms.
 *
 * It keeps nothing between calls, neither a handle nor a size: whatever happened to the folder in between (a crash, a
 * full disk, another process that writes there, a file taken away) is seen and not remembered wrongly.
 */
export async function appendDurably(
  root: string,
  parts: readonly string[],
  lines: string,
  now: number,
): Promise<void> {
  const folders = await openFolders(root, parts);
  const bytes = Buffer.from(lines);
  const { handle, fresh, torn } = await openCurrentFile(folders.at(-1) ?? root, bytes.length, now);
  try {
    // Before the first byte: a file that has some is taken for one whose name is durable.
    if (fresh) await syncFolders(folders);
    // A newline seals the torn line. It is not mended: bytes a reader has seen never change. Seen while another
    // process was in the middle of its write, the newline becomes an empty line behind that.
    await writeAll(handle, torn ? Buffer.concat([Buffer.from('\n'), bytes]) : bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** In one write where the system takes it as one, so that lines of several processes do not mix. */
async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    written += (await handle.write(bytes, written)).bytesWritten;
  }
}
