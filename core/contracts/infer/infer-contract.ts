import {
  type CanonicalEvent,
  contractSubject,
  type EventType,
  type Json,
  type JsonObject,
} from '../../event/event.ts';
import { type InferenceThresholds, type InferredField, inferSchema } from './infer-schema.ts';
import { MAX_PLACES, ValueProfile } from './value-profile.ts';

/** A contract that events suggest: what its creation takes. */
export interface ProposedContract {
  readonly name: string;
  readonly event_type: EventType;
  readonly event_name: string;
  readonly description: string;
  readonly schema_definition: JsonObject;
  readonly enforcement_mode: 'warn';
  readonly undeclared_fields: 'warn';
}

export interface InferredContract {
  /** Null where no event was shown. */
  readonly contract: ProposedContract | null;
  readonly events: number;
  readonly fields: readonly InferredField[];
}

const MAX_NAME = 200;

/**
 * Makes a contract of events, shown one after the other. It keeps figures, not events; what they take is bounded. The
 * same events give the same contract, in whatever order they come, unless they hold more than is remembered.
 */
export class ContractInference {
  readonly #eventType: EventType;
  readonly #eventName: string;
  readonly #subjects = new ValueProfile(0, { left: MAX_PLACES });
  #from = '';
  #to = '';

  constructor(eventType: EventType, eventName: string) {
    this.#eventType = eventType;
    this.#eventName = eventName;
  }

  /** An event that the contract would be for. */
  add(event: CanonicalEvent): void {
    const subject: Json = event[contractSubject(event.type)] ?? {};
    this.#subjects.add(subject);
    const { received_at: at } = event;
    if (this.#from === '' || at < this.#from) this.#from = at;
    if (at > this.#to) this.#to = at;
  }

  /** It warns and rejects nothing: whoever proposes it to themselves may be stricter. */
  infer(thresholds: InferenceThresholds): InferredContract {
    const events = this.#subjects.seen;
    if (events === 0) return { contract: null, events, fields: [] };
    const { schema, fields } = inferSchema(this.#subjects, thresholds);
    const contract: ProposedContract = {
      name: (this.#eventName || `Any ${this.#eventType}`).slice(0, MAX_NAME),
      event_type: this.#eventType,
      event_name: this.#eventName,
      description: `Inferred from ${events} ${events === 1 ? 'event' : 'events'} received from ${this.#from} to ${this.#to}.`,
      schema_definition: schema,
      enforcement_mode: 'warn',
      undeclared_fields: 'warn',
    };
    return { contract, events, fields };
  }
}
