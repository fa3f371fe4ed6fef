import type { FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { AllowedMethods } from '../http/allowed-methods.ts';
import { answerError } from '../http/answer-error.ts';
import { methodNotAllowed, notFound } from '../http/errors.ts';

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
