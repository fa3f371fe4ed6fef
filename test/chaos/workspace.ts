import { setTimeout as sleep } from 'node:timers/promises';
import { CANCELLED, DEPARTED } from '../demo/flights.ts';
import type { Client } from '../helpers/client.ts';
import { LATE_MINUTES, LONGEST_MILES, PLANE_FIELDS, type RuleName } from './expectation.ts';

export const FILES_FOLDER = 'departures';

export interface ChaosWorkspace {
  readonly workspaceId: string;
  /** Calls as the owner, in the workspace. */
  readonly owner: Client;
  readonly writeKey: string;
  readonly contractIds: readonly string[];
  readonly ruleIds: Readonly<Record<RuleName, string>>;
}

const TRANSFORMATION = `function transform(event) {
  const delay = event.properties.dep_delay;
  if (!(delay > ${LATE_MINUTES})) return null;
  event.properties.hours_late = Math.round(delay / 6) / 10;
  return event;
}`;

const LATE_FILTER = `has(event.properties.dep_delay) && event.properties.dep_delay > ${LATE_MINUTES}`;

interface Created {
  readonly id: string;
}

const ATTEMPTS = 6;
const PAUSE_MS = 3_000;

/** The way in which late departures are picked; a filter needs no sandbox. */
export type PickedBy = 'transformation' | 'filter';

/**
 * Expresses `expectationOf` through the API, in a new workspace. Retries until one workspace is created
 * completely.
 */
export async function prepareChaosWorkspace(
  person: Client,
  webhookUrl: string,
  pickedBy: PickedBy = 'transformation',
): Promise<ChaosWorkspace> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await tryToPrepare(person, webhookUrl, pickedBy);
    } catch (error) {
      if (attempt === ATTEMPTS) throw error; // retries a 503 of a busy machine
      await sleep(attempt * PAUSE_MS);
    }
  }
}

async function tryToPrepare(person: Client, webhookUrl: string, pickedBy: PickedBy): Promise<ChaosWorkspace> {
  const { id: workspaceId } = await person.post<Created>('/workspaces', { name: 'Chaos' });
  const owner = person.with({ workspaceId });
  const contractIds = await makeContracts(owner);
  const ruleIds = await makeRules(owner, webhookUrl, pickedBy);
  const { key } = await owner.post<{ key: string }>('./event-keys', {
    name: 'producers',
    environment: 'production',
  });
  return { workspaceId, owner, writeKey: key, contractIds, ruleIds };
}

async function makeContracts(owner: Client): Promise<readonly string[]> {
  const make = async (name: string, terms: object) =>
    (await owner.post<Created>('./event-contracts', { name, ...terms })).id;
  const anything = { type: ['string', 'number'] };
  return [
    await make('A departure arrives, and not too far away', {
      event_type: 'track',
      event_name: DEPARTED,
      schema_definition: {
        properties: {
          arr_delay: { type: 'number', required: true },
          distance: { type: 'number', maximum: LONGEST_MILES },
        },
      },
      enforcement_mode: 'block',
      undeclared_fields: 'allow',
    }),
    await make('A cancelled one should arrive too', {
      event_type: 'track',
      event_name: CANCELLED,
      schema_definition: { properties: { arr_delay: { type: 'number', required: true } } },
      enforcement_mode: 'warn',
      undeclared_fields: 'allow',
    }),
    await make('What we want to know of a plane', {
      event_type: 'identify',
      schema_definition: { properties: Object.fromEntries(PLANE_FIELDS.map((name) => [name, anything])) },
      enforcement_mode: 'block',
      undeclared_fields: 'omit',
    }),
  ];
}

async function makeRules(
  owner: Client,
  webhookUrl: string,
  pickedBy: PickedBy,
): Promise<Readonly<Record<RuleName, string>>> {
  const make = async (path: string, body: object) => (await owner.post<Created>(path, body)).id;
  const flight = (properties: object) => ({
    type: 'track',
    event: DEPARTED,
    user_id: 'N14228',
    properties,
  });
  const makeTransformation = () =>
    make('./event-transformations', {
      name: 'Late ones',
      source_code: TRANSFORMATION,
      test_input: flight({ dep_delay: 90 }),
      test_output: flight({ dep_delay: 90, hours_late: 1.5 }),
    });
  const late =
    pickedBy === 'filter' ? { filter: LATE_FILTER } : { transformation_id: await makeTransformation() };
  const webhook = await make('./destinations', {
    name: 'A webhook that fails at times',
    type: 'webhook',
    settings: { url: webhookUrl, batch_size: 20 },
  });
  const files = await make('./destinations', {
    name: 'Files',
    type: 'ndjson',
    settings: { folder: FILES_FOLDER },
  });
  const departures = { event_types: ['track'], event_names: [DEPARTED], enabled: true };
  return {
    'late ones to the webhook': await make('./event-forwarding-rules', {
      name: 'Late ones to the webhook',
      ...departures,
      destination_id: webhook,
      ...late,
    }),
    'departures to files': await make('./event-forwarding-rules', {
      name: 'Departures to files',
      ...departures,
      destination_id: files,
    }),
  };
}
