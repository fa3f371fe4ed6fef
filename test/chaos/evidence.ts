import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TOPIC } from '@tributary/core';
import { type Client, listAll } from '../helpers/client.ts';
import type { Installation } from './installation.ts';
import { jsonOf, type PrintedRecord, readCommitted } from './java-reader.ts';
import type {
  DeliveryRecord,
  EventRecord,
  Evidence,
  FunnelTotals,
  ViolationRecord,
  VolumeCell,
} from './verify.ts';
import { type ChaosWorkspace, FILES_FOLDER } from './workspace.ts';

interface Event {
  readonly message_id: string;
  readonly received_at: string;
  readonly properties?: object;
  readonly traits?: object;
}

interface Violation {
  readonly id: string;
  readonly message_id: string;
  readonly kind: string;
  readonly path: string;
  readonly action: string;
}

/** Reads all evidence: the topics by Kafka's own reader, the API, the webhook and the files. */
export async function gather(
  installation: Installation,
  workspace: ChaosWorkspace,
  atWebhook: ReadonlySet<string>,
): Promise<Evidence> {
  const topic = <T>(name: string, keep: (record: PrintedRecord) => T) =>
    readCommitted(
      {
        brokers: installation.kafka.url,
        topic: `${installation.prefix}${name}`,
      },
      keep,
    );
  const [accepted, rejected, violations, deliveries] = await Promise.all([
    topic(TOPIC.accepted, acceptedRecord),
    topic(TOPIC.rejected, rejectedRecord),
    topic(TOPIC.violations, ({ value }) => violationRecord(jsonOf<Violation>(value))),
    topic(TOPIC.deliveries, deliveryRecord),
  ]);
  const lists = workspace.contractIds.map((id) =>
    listAll<Violation>(workspace.owner, `./event-contracts/${id}/violations`),
  );
  const files = join(installation.dataFolder, 'ndjson', workspace.workspaceId, FILES_FOLDER);
  return {
    accepted,
    rejected,
    violations,
    listedViolations: (await Promise.all(lists)).flat().map(violationRecord),
    volume: await readVolume(workspace.owner),
    funnel: await readFunnel(workspace.owner),
    deliveries,
    arrived: { 'late ones to the webhook': atWebhook, 'departures to files': readIds(files) },
  };
}

function acceptedRecord(record: PrintedRecord): EventRecord {
  return eventRecord(record, jsonOf<Event>(record.value));
}

function rejectedRecord(record: PrintedRecord): EventRecord {
  return eventRecord(record, jsonOf<{ event: Event }>(record.value).event);
}

/** The header must contain the id of the event in the value. */
function eventRecord({ partition, offset, headers }: PrintedRecord, event: Event): EventRecord {
  const messageId = headers.get('message-id') ?? '';
  return {
    partition,
    offset,
    messageId: messageId === event.message_id ? messageId : `${messageId} around ${event.message_id}`,
    outcome: headers.get('outcome') ?? '',
    hour: `${event.received_at.slice(0, 13)}:00:00.000Z`,
    subject: JSON.stringify(event.properties ?? event.traits),
  };
}

function violationRecord({ id, message_id: messageId, kind, path, action }: Violation): ViolationRecord {
  return { id, messageId, kind, path, action };
}

function deliveryRecord({ value }: PrintedRecord): DeliveryRecord {
  const { id, message_id, rule_id } = jsonOf<{ id: string; message_id: string; rule_id: string }>(value);
  return { id, messageId: message_id, ruleId: rule_id };
}

async function readVolume(owner: Client): Promise<readonly VolumeCell[]> {
  const rows =
    await owner.get<
      readonly { event_type: string; event_name: string; hour_bucket: string; event_count: number }[]
    >('./event-volume?hours=24');
  return rows.map(({ event_type, event_name, hour_bucket, event_count }) => ({
    type: event_type,
    name: event_name,
    hour: hour_bucket,
    count: event_count,
  }));
}

async function readFunnel(owner: Client): Promise<FunnelTotals> {
  const { totals } = await owner.get<{ totals: FunnelTotals }>('./funnel?interval=hour');
  return totals;
}

/** Ids in the files. A line torn by a kill is not a delivery: it was not confirmed and is repeated. */
function readIds(folder: string): ReadonlySet<string> {
  const ids = new Set<string>();
  if (!existsSync(folder)) return ids;
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.ndjson'))) {
    for (const line of readFileSync(join(folder, file), 'utf8').split('\n')) {
      const id = line === '' ? undefined : idOf(line);
      if (id !== undefined) ids.add(id);
    }
  }
  return ids;
}

function idOf(line: string): string | undefined {
  try {
    return (JSON.parse(line) as { id: string }).id;
  } catch {
    return undefined;
  }
}
