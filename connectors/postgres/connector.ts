import type { Connector } from '@tributary/core';
import {
  type ConnectorCall,
  createClientConnector,
  createProbe,
  type Part,
  type PartResult,
  type Probe,
  sendInParts,
} from '../client/client-connector.ts';
import { untilAborted } from '../client/deadlines.ts';
import { DELIVERED } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { TableClient } from './client.ts';
import {
  ALREADY_THERE,
  classifyPostgresFailure,
  classifyRowRefusal,
  mayConcernRows,
  sqlStateOf,
  UNDEFINED_TABLE,
} from './errors.ts';
import { description, MAX_BATCH, type PostgresSettings, readSettings } from './settings.ts';

export const postgres: ConnectorKind = { description, create: createPostgresConnector };

const LIMITS = { events: MAX_BATCH, bytes: 8 * 1_024 * 1_024 };
const MAX_CLIENTS = 100;

export function createPostgresConnector(context: ConnectorContext): Connector {
  return createClientConnector<PostgresSettings, TableClient>(context, {
    readSettings,
    limits: () => LIMITS,
    async open(settings, { workspaceId }) {
      const { openTableClient } = await import('./client.ts');
      return openTableClient(context.egress, settings, { timeoutMs: context.timeoutMs, workspaceId });
    },
    maxClients: MAX_CLIENTS,
    keepsClient: mayConcernRows,
    classifyFailure: (error, { lastFailure }) => classifyPostgresFailure(error, lastFailure),

    send(client, settings, batch, call) {
      const probe = createProbe(call, () => insert(client, settings, []));
      return sendInParts(batch, {
        send: (part) => sendPart(client, settings, part, call, probe),
        hasTimeToHalve: call.hasTimeToHalve,
      });
    },

    async test(client, settings, { deadline }) {
      await untilAborted(insert(client, settings, []), deadline);
      return { ok: true };
    },
  });
}

async function sendPart(
  client: TableClient,
  settings: PostgresSettings,
  part: Part,
  call: ConnectorCall,
  probe: Probe,
): Promise<PartResult> {
  try {
    await untilAborted(insert(client, settings, part), call.deadline);
    return { result: DELIVERED, mayBeSplit: false };
  } catch (error) {
    const sqlState = sqlStateOf(error);
    if (sqlState === undefined || !mayConcernRows(error))
      return { result: call.failed(error), mayBeSplit: false };
    const ofAll = await probe();
    return ofAll === undefined
      ? { result: classifyRowRefusal(error, sqlState, settings), mayBeSplit: true }
      : { result: ofAll, mayBeSplit: false };
  }
}

/** Inserts rows, and creates the table at the first error that it does not exist. */
async function insert(
  client: TableClient,
  settings: PostgresSettings,
  deliveries: readonly Part[number][],
): Promise<void> {
  try {
    await client.insert(deliveries);
  } catch (error) {
    if (sqlStateOf(error) !== UNDEFINED_TABLE || !settings.create_table) throw error;
    await client.createTable().catch((refusal: unknown) => {
      if (!ALREADY_THERE.has(sqlStateOf(refusal) ?? '')) throw refusal;
    });
    await client.insert(deliveries);
  }
}
