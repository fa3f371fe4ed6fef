import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** The style sheet of the colours of code. */
export const codeStylesName = 'code.css';

const INLINE_SCRIPT = /<script(?: id="[\w-]+")?>([^<]+)<\/script>/g;
/** The styles that VitePress writes into every page; its script sets them in a way that the policy allows. */
const INLINE_STYLES = / style="(?:position:relative;|--vp-vh:0px;)"/g;
const scripts = new Map<string, string>();

/** Moves the inline scripts of a page to files, and its inline styles away: the policy of the site allows none of both. */
export function withoutInlineCode(base: string): (html: string) => string {
  return (html) =>
    html.replaceAll(INLINE_STYLES, '').replaceAll(INLINE_SCRIPT, (_, script: string) => {
      const name = `assets/inline.${createHash('sha256').update(script).digest('hex').slice(0, 8)}.js`;
      scripts.set(name, script);
      return `<script src="${base}${name}"></script>`;
    });
}

/** Writes what the build of VitePress leaves out, and a `.gz` beside each file that the gateway sends compressed. */
export async function finishSite(folder: string, codeStyles: string): Promise<void> {
  for (const [name, script] of scripts) await writeFile(join(folder, name), script);
  await writeFile(join(folder, codeStylesName), codeStyles);
  const names = await readdir(folder, { recursive: true });
  const compressible = names.filter((name) => /\.(?:html|js|css)$/.test(name));
  await Promise.all(
    compressible.map(async (name) => {
      const path = join(folder, name);
      await writeFile(`${path}.gz`, await promisify(gzip)(await readFile(path), { level: 9 }));
    }),
  );
}
