import { access } from 'node:fs/promises';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { GuideOptions } from '../dependencies.ts';
import { contentSecurityPolicy } from './console.ts';

/** Where the documentation is, with a slash at the end; the site is built for this path. */
const GUIDE_PATH = '/guide/';

const NOT_BUILT =
  'The documentation is not built yet. `npm start` builds it in the background, within a minute: try again. Elsewhere run: npm run build -w docs\n';
const NOT_FOUND_PAGE = '404.html';
const YEAR_MS = 365 * 24 * 3_600_000;

/** The site has no inline script or style, and calls nothing but this path. */
const PAGE_HEADERS = {
  'content-security-policy': contentSecurityPolicy({
    'script-src': ["'self'"],
    'style-src': ["'self'"],
    'img-src': ["'self'", 'data:'],
    'font-src': ["'self'"],
    'connect-src': ["'self'"],
    'frame-ancestors': ["'none'"],
  }),
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
} as const;

/**
 * The documentation as static files, public and the same for everybody. `/guide/reference/api` is the file
 * `reference/api.html`. Names in `assets/` contain a hash of the content; all else is asked for anew.
 */
export const guideRoutes: FastifyPluginAsync<GuideOptions> = async (app, { folder }) => {
  const hidden = { schema: { hide: true } };
  const exists = (file: string) =>
    access(join(folder, file)).then(
      () => true,
      () => false,
    );

  function sendFile(reply: FastifyReply, file: string): FastifyReply {
    reply.headers(PAGE_HEADERS);
    return file.startsWith('assets/')
      ? reply.sendFile(file, { maxAge: YEAR_MS, immutable: true })
      : reply.header('cache-control', 'no-cache').sendFile(file, { cacheControl: false });
  }

  async function sendMissing(reply: FastifyReply): Promise<FastifyReply> {
    reply.code(404);
    if (await exists(NOT_FOUND_PAGE)) return sendFile(reply, NOT_FOUND_PAGE);
    return reply.type('text/plain; charset=utf-8').send(NOT_BUILT);
  }

  await app.register(fastifyStatic, {
    root: folder,
    serve: false,
    index: false,
    preCompressed: true,
    suppressWarning: true,
    dotfiles: 'ignore',
  });

  // The router takes `/guide` and `/guide/` for the same.
  const address = ({ url }: FastifyRequest) => url.split('?', 1)[0] ?? '';
  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    if (!address(request).startsWith(GUIDE_PATH)) return reply.redirect(GUIDE_PATH);
    const path = address(request).slice(GUIDE_PATH.length);
    const file = fileOf(path);
    if (file === undefined) return sendMissing(reply);
    if (await exists(file)) return sendFile(reply, file);
    if (file.endsWith('.html') && (await exists(`${path}/index.html`)))
      return reply.redirect(`${GUIDE_PATH}${path}/`);
    return sendMissing(reply);
  }
  app.get(GUIDE_PATH.slice(0, -1), hidden, answer);
  app.get(`${GUIDE_PATH}*`, hidden, answer);
};

/** Segments of the files that the build makes. None begins with a dot. */
const SEGMENT = /^[\w@][\w.@-]*$/;

/** The file for a path below `/guide/`; undefined for one that no file can have. */
function fileOf(path: string): string | undefined {
  const segments = path.split('/');
  const last = segments.pop() ?? '';
  if (!segments.every((segment) => SEGMENT.test(segment))) return undefined;
  if (last === '') return `${path}index.html`;
  if (!SEGMENT.test(last)) return undefined;
  return last.includes('.') ? path : `${path}.html`;
}
