import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest, notFound } from '../../errors/api-error.ts';
import { entityOf, tagVersion } from '../../resources/catalog-entities.ts';
import { errorAnswers, pathOf } from '../../resources/schemas.ts';
import {
  presentTransformation,
  presentVersion,
  rollbackBody,
  transformationResource,
  transformationVersion,
  transformationVersionList,
} from './transformation-resource.ts';
import { replace } from './transformation-test.ts';

const path = '/workspaces/:workspaceId/event-transformations/:transformationId';

/** The versions of a transformation, and the rollback to one of them. */
export const transformationVersionRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { catalog } = dependencies;

  app.get(
    `${path}/versions`,
    {
      config: { operation: 'event-transformations.versions' },
      schema: {
        operationId: 'listTransformationVersions',
        summary: 'List the versions of a transformation',
        params: pathOf('transformationId'),
        response: { 200: transformationVersionList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const versions = catalog.state.transformationVersions.of(storedOf(request));
      return reply.code(200).send(versions.toReversed().map(presentVersion));
    },
  );

  app.get(
    `${path}/versions/:version`,
    {
      config: { operation: 'event-transformations.version' },
      schema: {
        operationId: 'readTransformationVersion',
        summary: 'Read a version of a transformation',
        params: pathOf('transformationId', 'version'),
        response: { 200: transformationVersion, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const found = versionOf(request, request.params.version);
      if (found === undefined) throw notFound();
      return reply.code(200).send(presentVersion(found));
    },
  );

  app.post(
    `${path}/rollback`,
    {
      config: { operation: 'event-transformations.rollback' },
      schema: {
        operationId: 'rollBackTransformation',
        summary: 'Go back to a version of a transformation',
        params: pathOf('transformationId'),
        body: rollbackBody,
        response: { 200: transformationResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const found = versionOf(request, String(request.body.version));
      if (found === undefined)
        throw invalidRequest({ path: '/version', message: 'is not a version of this transformation' });
      const { source_code, test_input, test_output } = found;
      const fields = { source_code, test_input, test_output };
      const transformation = await replace(request, dependencies, storedOf(request), fields);
      tagVersion(reply, transformation);
      return reply.code(200).send(presentTransformation(transformation));
    },
  );

  function versionOf(request: Named, version: string) {
    const versions = catalog.state.transformationVersions.of(storedOf(request));
    return versions.find((kept) => String(kept.version) === version);
  }

  function storedOf(request: Named) {
    return entityOf(request, dependencies, 'transformation', request.params.transformationId);
  }
};

type Named = FastifyRequest & { readonly params: { readonly transformationId: string } };
