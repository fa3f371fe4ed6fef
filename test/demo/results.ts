import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProfileRecord } from '@tributary/core';
import type { Client } from '../helpers/client.ts';
import type { ProfileClient } from '../helpers/profile-client.ts';
import type { FlightAnswers } from './answers.ts';
import { CANCELLED, DEPARTED } from './flights.ts';
import type { Receiver } from './receiver.ts';

export interface VolumeRecord {
  readonly event_type: string;
  readonly event_name: string;
  readonly hour_bucket: string;
  readonly event_count: number;
}

/** One line of the table at the end: an actual figure, and the one expected from the file. */
export interface ResultLine {
  readonly what: string;
  readonly answer: number;
  readonly expected: number;
}

export interface Results {
  readonly lines: readonly ResultLine[];
  readonly volume: readonly VolumeRecord[];
  /** Events that were counted or blocked. */
  readonly judged: number;
}

export interface ResultSources {
  readonly client: Client;
  readonly contractId: string;
  readonly receiver: Receiver;
  /** The folder of the ndjson destination. */
  readonly folder: string;
  /** Of the workspace's organization. */
  readonly profiles: ProfileClient;
  readonly region: string;
}

/** Queries both APIs, the webhook and the files. */
export async function readResults(sources: ResultSources, expected: FlightAnswers): Promise<Results> {
  const volume = await sources.client.get<readonly VolumeRecord[]>('./event-volume?hours=720');
  const counted = (wanted: (record: VolumeRecord) => boolean) =>
    volume.filter(wanted).reduce((sum, record) => sum + record.event_count, 0);
  const violations = await countAll(sources.client, `./event-contracts/${sources.contractId}/violations`);
  const stored = readNdjson(sources.folder);
  const judged = counted(() => true) + violations;
  // Each answer has thousands of records, so constant polling would slow down the work it waits for.
  const areAllJudged = judged === expected.identify + expected.group + expected.track;
  const wanted = areAllJudged ? expected.profiles : new Set<string>();
  const profiles = await findProfiles(sources.profiles, sources.region, wanted);
  const lines: ResultLine[] = [
    line(
      'identify events',
      counted(({ event_type }) => event_type === 'identify'),
      expected.identify,
    ),
    line(
      'group events',
      counted(({ event_type }) => event_type === 'group'),
      expected.group,
    ),
    line(
      'departures sent',
      counted(({ event_name }) => event_name === DEPARTED) + violations,
      expected.departed,
    ),
    line('violations of the contract', violations, expected.violating),
    line(
      'departures that pass it',
      counted(({ event_name }) => event_name === DEPARTED),
      expected.passing,
    ),
    line(
      'cancelled',
      counted(({ event_name }) => event_name === CANCELLED),
      expected.cancelled,
    ),
    line('late ones at the webhook', sources.receiver.deliveries.size, expected.late),
    line('departures in files', stored.size, expected.passing),
    line(
      'miles flown by those',
      [...stored.values()].reduce((sum, distance) => sum + distance, 0),
      expected.distance,
    ),
    line('profiles, found by tailnum', new Set(profiles.values()).size, expected.profiles.size),
    line('planes with their airlines', flyingForTheirs(profiles, expected.airlines), expected.airlines.size),
  ];
  return { lines, volume, judged };
}

function line(what: string, answer: number, expected: number): ResultLine {
  return { what, answer, expected };
}

async function countAll(client: Client, path: string): Promise<number> {
  let count = 0;
  for await (const page of client.pages(`${path}?limit=1000`)) count += page.length;
  return count;
}

/** The distance of each delivery in the files, by delivery id: a repeated one counts once. */
function readNdjson(folder: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  if (!existsSync(folder)) return found;
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.ndjson'))) {
    for (const text of readFileSync(join(folder, file), 'utf8').split('\n')) {
      const written = parsed(text);
      if (written !== undefined) found.set(written.id, written.event.properties.distance ?? 0);
    }
  }
  return found;
}

/** A line of the file; undefined for a line torn by a crash, which the server writes again. */
function parsed(text: string): { id: string; event: { properties: { distance?: number } } } | undefined {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The maximum number of values of one search. */
const VALUES = 1_000;

/** The profile of each of these users, as the profile API finds it by the user's id. */
async function findProfiles(
  client: ProfileClient,
  region: string,
  users: ReadonlySet<string>,
): Promise<ReadonlyMap<string, ProfileRecord>> {
  const wanted = [...users];
  const found = new Map<string, ProfileRecord>();
  for (let from = 0; from < wanted.length; from += VALUES) {
    const asked = new Set(wanted.slice(from, from + VALUES));
    for (const record of await client.search({ user_id: [...asked] }, [region]))
      for (const user of usersOf(record)) if (asked.has(user)) found.set(user, record);
  }
  return found;
}

/** The number of profiles with exactly the airlines that the plane flies for, by name. */
function flyingForTheirs(
  profiles: ReadonlyMap<string, ProfileRecord>,
  airlines: ReadonlyMap<string, Readonly<Record<string, string>>>,
): number {
  return [...airlines].filter(([user, groups]) => {
    const { _ts, ...shown } = (profiles.get(user)?.profile.groups ?? {}) as Record<string, unknown>;
    const ids = Object.keys(shown);
    return (
      ids.length === Object.keys(groups).length &&
      ids.every((id) => (shown[id] as { readonly name?: unknown }).name === groups[id])
    );
  }).length;
}

function usersOf({ ids }: ProfileRecord): readonly string[] {
  const named = (ids.user_id ?? []) as readonly { readonly user_id: string }[];
  return named.map(({ user_id }) => user_id);
}
