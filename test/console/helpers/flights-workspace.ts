import { DEPARTED, type FlightEvent, readFlights } from '../../demo/flights.ts';
import { sendEvents } from '../../demo/send.ts';
import { prepareWorkspace } from '../../demo/workspace.ts';
import { drained } from '../../helpers/drained.ts';
import type { Tributary } from '../../helpers/running-tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

/** The workspace of the flights, its events processed. */
export interface FlightsWorkspace {
  readonly workspaceId: string;
  /** Its departures, in the order in which they were sent. */
  readonly departures: readonly FlightEvent[];
  /** The destination of the flights that are more than an hour late. */
  readonly webhook: Webhook;
  /** A write key of it. */
  readonly writeKey: string;
}

/**
 * The workspace `New York departures` of the demo: a contract that some flights break, a transformation, two destinations
 * and two rules. `flights`: how many of January 2013, with the planes and airlines of these.
 */
export async function prepareFlights(tributary: Tributary, flights: number): Promise<FlightsWorkspace> {
  const webhook = await startWebhook();
  const { client, workspaceId, writeKey } = await prepareWorkspace(tributary.owner, webhook.url);
  const events = firstFlights(flights);
  await sendEvents(client.with({ token: writeKey.key }), events, () => undefined);
  await drained(tributary);
  const departures = events.filter(({ event }) => event === DEPARTED);
  return { workspaceId, departures, webhook, writeKey: writeKey.key };
}

function firstFlights(count: number): readonly FlightEvent[] {
  const all = readFlights();
  const flights = all.filter(({ type }) => type === 'track').slice(0, count);
  const planes = new Set(flights.map(({ user_id }) => user_id));
  return [...all.filter(({ type, user_id }) => type !== 'track' && planes.has(user_id)), ...flights];
}
