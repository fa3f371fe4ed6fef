import type { Connector, DeliveryResult } from '@tributary/core';
import { type Call, createClientConnector } from '../client/client-connector.ts';
import { untilAborted } from '../client/deadlines.ts';
import { memoize, type Part, type PartResult, sendInParts } from '../client/partial-batches.ts';
import { DELIVERED } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { TableClient } from './client.ts';
import {
  ALREADY_THERE,
  mayBlameRows,
  sqlStateOf,
  UNDEFINED_TABLE,
  verdictOfPostgresFailure,
  verdictOfRow,
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
    outlives: mayBlameRows,
    verdictOfFailure: (error, { lastFailure }) => verdictOfPostgresFailure(error, lastFailure),

    send(client, settings, batch, call) {
      const refusalOfAll = memoize(() => refusalOfNothing(client, settings, call));
      return sendInParts(batch, {
        send: (part) => sendPart(client, settings, part, call, refusalOfAll),
        mayHalve: call.mayHalve,
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
  call: Call,
  refusalOfAll: () => Promise<DeliveryResult | undefined>,
): Promise<PartResult> {
  try {
    await untilAborted(insert(client, settings, part), call.deadline);
    return { result: DELIVERED, someToBlame: false };
  } catch (error) {
    const sqlState = sqlStateOf(error);
    if (sqlState === undefined || !mayBlameRows(error))
      return { result: call.failed(error), someToBlame: false };
    const ofAll = await refusalOfAll();
    return ofAll === undefined
      ? { result: verdictOfRow(error, sqlState, settings), someToBlame: true }
      : { result: ofAll, someToBlame: false };
  }
}

/** Why the table takes no row at all; undefined where it would. */
async function refusalOfNothing(
  client: TableClient,
  settings: PostgresSettings,
  call: Call,
): Promise<DeliveryResult | undefined> {
  try {
    await untilAborted(insert(client, settings, []), call.deadline);
    return undefined;
  } catch (error) {
    return call.failed(error);
  }
}

/** The table is made when it is first missed. */
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
