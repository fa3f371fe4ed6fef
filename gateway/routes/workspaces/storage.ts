import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { STORAGE_ACTIONS, STORAGE_BUDGETS, type StorageLimits, type StorageUsage } from '@tributary/core';
import { Type } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { errorAnswers, nullable, oneOf, pathOf } from '../../resources/schemas.ts';

const storageResource = Type.Object(
  {
    state: oneOf(
      STORAGE_ACTIONS,
      '`ok`; `stop_output`: events are accepted and make no deliveries; `refuse`: events are answered 429.',
    ),
    over: nullable(oneOf(STORAGE_BUDGETS, 'The budget that is used up.')),
    received: Type.Integer({ description: 'Bytes received from producers in the current hour.' }),
    bytes_per_hour: budgetOf('Bytes that stages wrote in the current hour.'),
    bytes_held: budgetOf('Bytes that the log keeps.'),
  },
  { title: 'WorkspaceStorage' },
);

function budgetOf(description: string) {
  return Type.Object({
    used: Type.Integer({ description }),
    limit: nullable(Type.Integer({ description: 'Null: any number.' })),
  });
}

const NOTHING: StorageUsage = { received: 0, written: 0, lastHour: 0, held: 0 };
const UNLIMITED: StorageLimits = {
  bytesPerHour: Number.POSITIVE_INFINITY,
  bytesHeld: Number.POSITIVE_INFINITY,
};

/** `GET /workspaces/:workspaceId/storage`: its bytes in the log, and its budgets. */
export const storageRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, { budgets }) => {
  app.get(
    '/workspaces/:workspaceId/storage',
    {
      config: { operation: 'event-volume.read' },
      schema: {
        operationId: 'readWorkspaceStorage',
        summary: 'Read how many bytes the events of a workspace take, and its budgets',
        params: pathOf(),
        response: { 200: storageResource, ...errorAnswers },
      },
    },
    async ({ workspace: { id } }, reply) => {
      const over = budgets?.verdictOf(id);
      const { received, written, held } = budgets?.usageOf(id) ?? NOTHING;
      const { bytesPerHour, bytesHeld } = budgets?.limitsOf(id) ?? UNLIMITED;
      return reply.code(200).send({
        state: over?.action ?? 'ok',
        over: over?.budget ?? null,
        received,
        bytes_per_hour: { used: written, limit: limited(bytesPerHour) },
        bytes_held: { used: held, limit: limited(bytesHeld) },
      });
    },
  );
};

function limited(limit: number): number | null {
  return Number.isFinite(limit) ? limit : null;
}
