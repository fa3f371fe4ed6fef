import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

/** Writes a `.gz` beside each asset: the gateway sends it as it is. */
const compressed: Plugin = {
  name: 'compressed-assets',
  apply: 'build',
  async writeBundle({ dir = '' }, bundle) {
    const names = Object.keys(bundle).filter((name) => /^assets\/.*\.(?:js|css|svg)$/.test(name));
    await Promise.all(
      names.map(async (name) => {
        const path = join(dir, name);
        await writeFile(`${path}.gz`, await promisify(gzip)(await readFile(path), { level: 9 }));
      }),
    );
  },
};

/** The gateway serves `dist` at `/console/`. With `vite`, calls go to a gateway on its default port. */
export default defineConfig({
  base: '/console/',
  plugins: [react(), compressed],
  server: { proxy: { '^/(api|cdp|console/session|console/config.json)': 'http://127.0.0.1:8080' } },
  build: {
    target: 'es2022',
    chunkSizeWarningLimit: 800,
    rolldownOptions: { input: ['index.html', 'signed-in.html'] },
  },
});
