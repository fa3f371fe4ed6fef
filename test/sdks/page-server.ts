import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** A web site with one page that loads analytics.js, as its package ships it. */
export interface PageServer {
  readonly url: string;
  close(): Promise<void>;
}

const BUNDLES = '/analytics-next/bundles/';
const PAGE = `<!doctype html><title>Shop</title>
<script>window.analytics = { _cdn: location.origin };</script>
<script src="${BUNDLES}index.js"></script>`;

/** `others`: further pages, by path, rendered on request. */
export async function servePage(others: Readonly<Record<string, () => string>> = {}): Promise<PageServer> {
  const main = createRequire(import.meta.url).resolve('@segment/analytics-next');
  const umd = join(dirname(main), '..', 'umd');
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    const file = path.startsWith(BUNDLES) ? path.slice(BUNDLES.length) : undefined;
    const page = path === '/' ? PAGE : others[path]?.();
    if (page !== undefined) response.setHeader('content-type', 'text/html').end(page);
    else if (file === undefined || !/^[\w.-]+\.js$/.test(file)) response.writeHead(404).end();
    else
      readFile(join(umd, file)).then(
        (script) => response.setHeader('content-type', 'text/javascript').end(script),
        () => response.writeHead(404).end(),
      );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('it listens at no port');
  return {
    url: `http://127.0.0.1:${address.port}/`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
