import {
  type CanonicalEvent,
  type DeliveryEnvelope,
  type EventLog,
  HEADER,
  hasEvent,
  type LogEntry,
  type Position,
  parseExact,
  parsePosition,
  referencedEventText,
} from '@tributary/core';

type Log = Pick<EventLog, 'read' | 'first'>;

/** The event of a delivery, read where it refers to; undefined where the log no longer has it. */
export async function eventOf(log: Log, delivery: DeliveryEnvelope): Promise<CanonicalEvent | undefined> {
  if (hasEvent(delivery)) return delivery.event;
  const entry = delivery.event_at && (await recordAt(log, delivery.event_at.position));
  // Another workspace's after its topic was made anew.
  if (entry?.headers[HEADER.workspaceId] !== delivery.workspace_id) return undefined;
  return parseExact<CanonicalEvent>(referencedEventText(entry));
}

/** Whether the event of a delivery can still be read. */
export async function isKept(log: Log, delivery: DeliveryEnvelope): Promise<boolean> {
  const [kept] = await keptOf(log, [delivery]);
  return kept !== undefined;
}

/** The deliveries whose events can still be read, by the first records that the log has. */
export async function keptOf<D extends DeliveryEnvelope>(log: Log, deliveries: readonly D[]): Promise<D[]> {
  const firsts = new Map<string, Promise<number>>();
  const firstOf = ({ topic, partition }: Position) => {
    const name = `${topic}/${partition}`;
    const known = firsts.get(name) ?? log.first(topic, partition);
    firsts.set(name, known);
    return known;
  };
  const kept = await Promise.all(
    deliveries.map(async ({ event_at }) => {
      const position = event_at && parsePosition(event_at.position);
      return position === undefined || position.offset >= (await firstOf(position));
    }),
  );
  return deliveries.filter((_, at) => kept[at] === true);
}

/** One record; undefined where the log no longer has it. */
export async function recordAt(log: Pick<EventLog, 'read'>, text: string): Promise<LogEntry | undefined> {
  const position = parsePosition(text);
  if (position === undefined) return undefined;
  const { topic, partition, offset, index } = position;
  const { entries } = await log.read(topic, partition, offset, { maxBytes: 1 });
  return entries.find(({ position: its }) => its.offset === offset && its.index === index);
}
