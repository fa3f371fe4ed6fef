import type { FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { answerError, methodNotAllowed, notFound } from '../errors/api-error.ts';

/**
 * Answers requests without a route: 405 with `Allow` for a path that has other methods, else 404. The body is not read,
 * so its faults are not reported.
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

/** The methods of each path. */
export class AllowedMethods {
  readonly #routes: { readonly path: RegExp; readonly methods: readonly string[] }[] = [];

  /** `url`: a route pattern with `:parameters`. Patterns with a `*` match any path and are ignored. */
  add(url: string, methods: string | readonly string[]): void {
    if (url.includes('*')) return;
    const segments = url
      .split('/')
      .map((segment) => (segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[^\w-]/g, '\\$&')));
    this.#routes.push({ path: new RegExp(`^${segments.join('/')}/?$`), methods: [methods].flat() });
  }

  /** The methods of a URL's path, sorted; none for an unknown path. */
  of(url: string): readonly string[] {
    const [path = ''] = url.split('?', 1);
    const methods = this.#routes.filter((route) => route.path.test(path)).flatMap((route) => route.methods);
    return [...new Set(methods)].sort();
  }
}
