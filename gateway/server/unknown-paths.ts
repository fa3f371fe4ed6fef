import type { FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { answerError, methodNotAllowed, notFound } from '../errors/api-error.ts';

/**
 * Answers what no route is for: 404 for a path that is none, 405 with `Allow` for one that knows other methods. At once:
 * a body that nobody asked for is not read, so nothing can be wrong with it.
 */
export const unknownPathsPlugin = fastifyPlugin(async (app) => {
  const allowed = new AllowedMethods();

  function refuse(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const methods = allowed.of(request.url);
    if (methods.length === 0) return answerError(reply, notFound());
    return answerError(reply.header('allow', methods.join(', ')), methodNotAllowed());
  }

  app.addHook('onRoute', ({ url, method }) => allowed.add(url, method));
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404) refuse(request, reply);
    else done();
  });
  app.setNotFoundHandler(refuse);
});

/** Which methods each path has, to answer one it has not by 405 and those it has. */
export class AllowedMethods {
  readonly #routes: { readonly path: RegExp; readonly methods: readonly string[] }[] = [];

  /** `url`: as routes write it, with `:parameters`. One with a `*` stands for any path, which says nothing of this one. */
  add(url: string, methods: string | readonly string[]): void {
    if (url.includes('*')) return;
    const segments = url
      .split('/')
      .map((segment) => (segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[^\w-]/g, '\\$&')));
    this.#routes.push({ path: new RegExp(`^${segments.join('/')}/?$`), methods: [methods].flat() });
  }

  /** The methods of a URL's path, sorted; none where there is no such path. */
  of(url: string): readonly string[] {
    const [path = ''] = url.split('?', 1);
    const methods = this.#routes.filter((route) => route.path.test(path)).flatMap((route) => route.methods);
    return [...new Set(methods)].sort();
  }
}
