import type {
  BatchLimits,
  ConnectionTest,
  Connector,
  ConnectorDestination,
  Delivery,
  DeliveryResult,
  JsonObject,
} from '@tributary/core';
import { NOT_VALID, STOPPED, testedBy, verdictOfOurs } from '../failures.ts';
import type { ConnectorContext } from '../kind.ts';
import { type Deadline, Deadlines } from './deadlines.ts';
import { DestinationClients } from './destination-clients.ts';
import { type Part, partsOf } from './partial-batches.ts';

/** A client of a destination that nobody used is kept this long, ms. */
const IDLE_MS = 3 * 60_000;
/** After this part of the time a refused batch is sent on one by one, so that every call settles some of it. */
const HALVING_PART = 1 / 4;

/** One call to a destination. */
export interface Call {
  readonly destination: ConnectorDestination;
  /** Aborted when its time is over, and when nobody waits any more. */
  readonly deadline: Deadline;
  /** Is there time to send a refused batch on in halves? */
  mayHalve(): boolean;
  /** What a failure that the kind foresaw means; the next call begins with a new client. Throws any other. */
  failed(error: unknown): DeliveryResult;
}

/** How a kind of place is spoken to by a client that each of its destinations has of its own. */
export interface ClientKind<Settings, Client extends { close(): Promise<void> }> {
  /** Undefined for settings that the schema would not have let through. */
  readSettings(settings: JsonObject): Settings | undefined;
  limits(settings: Settings): BatchLimits;
  /** Loads what it needs and connects to nothing. */
  open(settings: Settings, destination: ConnectorDestination): Promise<Client>;
  /** What became of each, in order. `batch` is within the limits. Rejects when all met with the same failure. */
  send(client: Client, settings: Settings, batch: Part, call: Call): Promise<readonly DeliveryResult[]>;
  /** Rejects, as `send` does, when the place is not reached. */
  test(client: Client, settings: Settings, call: Call): Promise<ConnectionTest>;
  /** What a rejection means; undefined for one that is our own fault. */
  verdictOfFailure(error: unknown, client: Client): DeliveryResult | undefined;
  /** True for a failure that leaves the client as good as it was. */
  outlives(error: unknown): boolean;
  /** Clients that are kept although nobody uses them. */
  readonly maxClients: number;
}

/** The connector of such a kind: settings, batches, deadlines, failures, tests and the close are the same for all. */
export function createClientConnector<Settings, Client extends { close(): Promise<void> }>(
  { timeoutMs, clock }: ConnectorContext,
  kind: ClientKind<Settings, Client>,
): Connector {
  const open = async (destination: ConnectorDestination): Promise<Client> => {
    const read = kind.readSettings(destination.settings);
    if (read === undefined) throw new TypeError(NOT_VALID);
    return kind.open(read, destination);
  };
  const clientsOf = (maxKept: number) => new DestinationClients<Client>({ open, idleMs: IDLE_MS, maxKept });
  const clients = clientsOf(kind.maxClients);
  /** Of each connection test that is under way. */
  const ofTests = new Set<DestinationClients<Client>>();
  const deadlines = new Deadlines(timeoutMs);
  let closing: Promise<void> | undefined;

  /** One deadline for all that `work` asks of the place; a failure that was foreseen is a value. */
  async function call<T>(
    from: DestinationClients<Client>,
    destination: ConnectorDestination,
    signal: AbortSignal,
    work: (client: Client, call: Call) => Promise<T>,
  ): Promise<{ readonly done: T } | { readonly failed: DeliveryResult }> {
    const halvingEndsAt = clock() + timeoutMs * HALVING_PART;
    const deadline = deadlines.begin(signal);
    const begun: { call?: Call } = {};
    try {
      deadline.throwIfAborted();
      const done = await from.use(destination, (client, discard) => {
        begun.call = {
          destination,
          deadline,
          mayHalve: () => clock() < halvingEndsAt,
          failed(error) {
            const verdict = kind.verdictOfFailure(error, client);
            if (!kind.outlives(error)) discard();
            if (verdict === undefined) throw error;
            return verdict;
          },
        };
        deadline.throwIfAborted();
        return work(client, begun.call);
      });
      return { done };
    } catch (error) {
      return { failed: verdictOf(error, begun.call) };
    } finally {
      deadlines.end(deadline);
    }
  }

  return {
    batchLimits({ settings }) {
      const read = kind.readSettings(settings);
      return read === undefined ? { events: 1 } : kind.limits(read);
    },

    async deliver(destination, deliveries: readonly Delivery[], { signal }) {
      const settings = kind.readSettings(destination.settings);
      if (settings === undefined) return deliveries.map(() => ({ outcome: 'dead', reason: NOT_VALID }));
      const batches = partsOf(deliveries, kind.limits(settings).events);
      const results: DeliveryResult[] = [];
      for (const batch of batches) {
        const outcome = await call(clients, destination, signal, (client, made) =>
          kind.send(client, settings, batch, made),
        );
        const answers = 'done' in outcome ? outcome.done : batch.map(() => outcome.failed);
        if (batches.length === 1) return answers;
        results.push(...answers);
      }
      return results;
    },

    async test(destination, { signal }) {
      const settings = kind.readSettings(destination.settings);
      if (settings === undefined) return { ok: false, reason: NOT_VALID };
      if (closing !== undefined) return testedBy(STOPPED);
      // A client of its own, so that nothing of the test is left once it is answered.
      const own = clientsOf(1);
      ofTests.add(own);
      try {
        const outcome = await call(own, destination, signal, (client, made) =>
          kind.test(client, settings, made),
        );
        return 'done' in outcome ? outcome.done : testedBy(outcome.failed);
      } finally {
        ofTests.delete(own);
        await own.close();
      }
    },

    close() {
      closing ??= Promise.all([clients, ...ofTests].map((open) => open.close())).then(() => undefined);
      return closing;
    },
  };
}

/** Of a failure that nobody answered for until here. Throws one that was not foreseen. */
function verdictOf(error: unknown, call: Call | undefined): DeliveryResult {
  try {
    if (call !== undefined) return call.failed(error);
  } catch (unforeseen) {
    return verdictOf(unforeseen, undefined);
  }
  const verdict = verdictOfOurs(error);
  if (verdict === undefined) throw error;
  return verdict;
}
