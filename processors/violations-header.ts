import {
  type CanonicalEvent,
  eventName,
  HEADER,
  type Headers,
  InvalidInput,
  type Json,
  type Violation,
} from '@tributary/core';

/** Characters of the header at most: no more than an event has. Violations that do not fit are left out of it. */
const MAX_CHARACTERS = 32 * 1024;

/** What the event and the other headers of its entry do not say of a violation. */
type Said = Pick<Violation, 'id' | 'kind' | 'path' | 'message' | 'action'>;

/** The violations of an accepted event, for who shows it: they travel with it, as its value stays as it was received. */
export function violationsHeader(violations: readonly Violation[]): Headers {
  const texts: string[] = [];
  let characters = 0;
  for (const { id, kind, path, message, action } of violations) {
    const text = JSON.stringify({ id, kind, path, message, action } satisfies Said);
    characters += text.length + 1;
    if (characters > MAX_CHARACTERS) break;
    texts.push(text);
  }
  return texts.length === 0 ? {} : { [HEADER.violations]: `[${texts.join(',')}]` };
}

/** The violations whole again. Throws `InvalidInput` for headers that no validate wrote. */
export function violationsIn(headers: Headers, event: CanonicalEvent): readonly Violation[] {
  const text = headers[HEADER.violations];
  if (text === undefined) return [];
  const contractId = headers[HEADER.contractId] ?? '';
  const contractVersion = Number(headers[HEADER.contractVersion] ?? 0);
  return saidIn(text).map(({ id, kind, path, message, action }) => ({
    id,
    contract_id: contractId,
    contract_version: contractVersion,
    workspace_id: event.workspace_id,
    environment: event.environment,
    message_id: event.message_id,
    event_type: event.type,
    event_name: eventName(event),
    kind,
    path,
    message,
    action,
    received_at: event.received_at,
  }));
}

function saidIn(text: string): readonly Said[] {
  let said: Json;
  try {
    said = JSON.parse(text) as Json;
  } catch (error) {
    throw new InvalidInput('violations that are not JSON', { cause: error });
  }
  if (!Array.isArray(said)) throw new InvalidInput('violations that are no list');
  return said as unknown as readonly Said[];
}
