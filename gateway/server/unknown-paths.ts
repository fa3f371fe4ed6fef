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
  // In a scope of its own, so that the hook is not run for requests that have a route.
  await app.register(async (scope) => {
    scope.addHook('onRequest', async (request, reply) => refuse(request, reply));
    scope.setNotFoundHandler(refuse);
  });
});

/** The methods of each path. */
export class AllowedMethods {
  readonly #routes: {
    readonly path: RegExp;
    readonly parameters: number;
    readonly methods: readonly string[];
  }[] = [];

  /** `url`: a route pattern with `:parameters`. Patterns with a `*` match any path and are ignored. */
  add(url: string, methods: string | readonly string[]): void {
    if (url.includes('*')) return;
    const segments = url
      .split('/')
      .map((segment) => (segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[^\w-]/g, '\\$&')));
    const parameters = url.split(':').length - 1;
    this.#routes.push({
      path: new RegExp(`^${segments.join('/')}/?$`),
      parameters,
      methods: [methods].flat(),
    });
  }

  /** The methods of a URL's path, sorted; none for an unknown path. Of several patterns that with the fewest parameters counts. */
  of(url: string): readonly string[] {
    const [path = ''] = url.split('?', 1);
    const matching = this.#routes.filter((route) => route.path.test(path));
    const fewest = Math.min(...matching.map(({ parameters }) => parameters));
    const methods = matching
      .filter(({ parameters }) => parameters === fewest)
      .flatMap((route) => route.methods);
    return [...new Set(methods)].sort();
  }
}
