import { type JsonObject, NO_LOGGER, PUBLIC_SCHEMAS, TOPIC, type ValueFraming } from '@tributary/core';
import { openConfluentFraming } from '@tributary/infra';
import { freshPrefix } from '../../../helpers/engines.ts';

/** A part of a real registry that no other test uses. */
export interface Corner {
  readonly url: string;
  readonly prefix: string;
  subject(topic?: string): string;
  open(): Promise<ValueFraming>;
  /** Registers a schema under a subject as anyone could, and returns its id. */
  register(subject: string, schema: JsonObject): Promise<number>;
  setLevel(subject: string, level: string): Promise<void>;
  /** Ids of the versions of a subject, oldest first. */
  versions(subject: string): Promise<readonly number[]>;
  level(subject: string): Promise<unknown>;
  dispose(): Promise<void>;
}

const JSON_TYPE = { 'content-type': 'application/vnd.schemaregistry.v1+json' };

export function cornerOf(url: string): Corner {
  const prefix = freshPrefix();
  const subject = (topic: string = TOPIC.accepted) => `${prefix}${topic}-value`;

  async function ask(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const init = body === undefined ? {} : { headers: JSON_TYPE, body: JSON.stringify(body) };
    const response = await fetch(`${url}${path}`, { method, ...init });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Record<string, unknown>;
  }

  return {
    url,
    prefix,
    subject,
    open: () => openConfluentFraming({ url, prefix, logger: NO_LOGGER }),
    async register(name, schema) {
      const body = { schemaType: 'JSON', schema: JSON.stringify(schema) };
      return Number((await ask('POST', `/subjects/${name}/versions`, body)).id);
    },
    async setLevel(name, level) {
      await ask('PUT', `/config/${name}`, { compatibility: level });
    },
    async versions(name) {
      const numbers = Object.values(await ask('GET', `/subjects/${name}/versions`));
      return Promise.all(
        numbers.map(async (number) => Number((await ask('GET', `/subjects/${name}/versions/${number}`)).id)),
      );
    },
    level: async (name) => (await ask('GET', `/config/${name}`)).compatibilityLevel,
    async dispose() {
      for (const topic of PUBLIC_SCHEMAS.keys()) {
        // Only softly deleted subjects can be deleted for good; a test may have left no such subject.
        await fetch(`${url}/subjects/${subject(topic)}`, { method: 'DELETE' });
        await fetch(`${url}/subjects/${subject(topic)}?permanent=true`, { method: 'DELETE' });
      }
    },
  };
}
