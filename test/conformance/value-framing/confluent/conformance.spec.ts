import type { IncomingMessage } from 'node:http';
import { SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry';
import {
  type JsonObject,
  NO_LOGGER,
  PUBLIC_SCHEMAS,
  SchemaRefused,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { openConfluentFraming } from '@tributary/infra';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import type { OnLoopback } from '../../../helpers/on-loopback.ts';
import { event } from '../../../stages/harness.ts';
import { events, profileChanges, validated } from '../suite/records.ts';
import { valueFramingConformance } from '../suite/value-framing.conformance.ts';
import { answer, frontOf } from './front.ts';
import { type Corner, cornerOf } from './registry.ts';

const url = engines()?.schemaRegistryUrl;

describe.skipIf(url === undefined)('on a real registry', () => {
  const shared = cornerOf(url ?? '');
  valueFramingConformance({
    name: 'confluent',
    frames: true,
    open: shared.open,
    dispose: shared.dispose,
  });

  let corner: Corner;
  let foreign: SchemaRegistry;
  const fronts: OnLoopback[] = [];
  beforeEach(() => {
    corner = cornerOf(url ?? '');
    foreign = new SchemaRegistry({ host: corner.url });
  });
  afterEach(async () => {
    await Promise.all(fronts.splice(0).map((front) => front.close()));
    await corner.dispose();
  });

  async function front(intercept: Parameters<typeof frontOf>[1]): Promise<string> {
    const one = await frontOf(corner.url, intercept);
    fronts.push(one);
    return one.url;
  }
  const openAt = (address: string, more: { username?: string; password?: string; answerMs?: number } = {}) =>
    openConfluentFraming({ url: address, prefix: corner.prefix, logger: NO_LOGGER, ...more });
  const failure = async (opening: Promise<unknown>): Promise<unknown> =>
    opening.then(
      () => 'it opened',
      (error: unknown) => error,
    );
  const idOf = (bytes: Buffer) => bytes.readUInt32BE(1);

  it('writes values that an independent consumer decodes by the registry', async () => {
    const framing = await corner.open();
    const batches = fc.uniqueArray(events, {
      minLength: 20,
      maxLength: 20,
      selector: (one) => one.message_id,
    });
    const seen = new Set<string>();
    for (const enforcement_mode of ['block', 'warn'] as const) {
      const [batch = []] = fc.sample(batches, 1);
      for (const { topic, value } of await validated(batch, { enforcement_mode })) {
        expect(await foreign.decode(framing.frame(topic, value))).toEqual(JSON.parse(value));
        seen.add(topic);
      }
    }
    for (const value of await profileChanges()) {
      const topic = TOPIC.profileChanges;
      expect(await foreign.decode(framing.frame(topic, value))).toEqual(JSON.parse(value));
      seen.add(topic);
    }
    expect(seen).toEqual(new Set(PUBLIC_SCHEMAS.keys()));
  });

  it('frames with a schema that refuses what breaks it, in the hands of that consumer', async () => {
    const framing = await corner.open();
    const broken = framing.frame(TOPIC.accepted, JSON.stringify({ ...event('m1'), message_id: 1 }));
    await expect(foreign.decode(broken)).rejects.toThrow('invalid payload');
  });

  it('reads values that an independent producer encoded', async () => {
    const framing = await corner.open();
    const id = await foreign.getLatestSchemaId(corner.subject());
    const encoded = await foreign.encode(id, event('m1'));
    expect(JSON.parse(framing.unframe(TOPIC.accepted, encoded))).toEqual(event('m1'));
    expect(encoded).toEqual(framing.frame(TOPIC.accepted, JSON.stringify(event('m1'))));
  });

  it('keeps a subject for each public topic and no other, compatible forward', async () => {
    await corner.open();
    const subjects = (await (await fetch(`${corner.url}/subjects`)).json()) as string[];
    const ours = subjects.filter((subject) => subject.startsWith(corner.prefix));
    expect(ours.sort()).toEqual([...PUBLIC_SCHEMAS.keys()].map(corner.subject).sort());
    for (const subject of ours) {
      expect(await corner.versions(subject)).toHaveLength(1);
      expect(await corner.level(subject)).toBe('FORWARD');
    }
  });

  it('gives all processes that open at once the same ids, and those after them', async () => {
    const opened = await Promise.all(Array.from({ length: 8 }, () => corner.open()));
    const later = await corner.open();
    for (const topic of PUBLIC_SCHEMAS.keys()) {
      const ids = [...opened, later].map((framing) => idOf(framing.frame(topic, '{}')));
      expect(new Set(ids)).toEqual(new Set(await corner.versions(corner.subject(topic))));
    }
  });

  it('writes nothing to the registry once its schemas are there', async () => {
    await corner.open();
    const requests: string[] = [];
    const address = await front((request) => {
      requests.push(`${request.method} ${request.url}`);
      return false;
    });
    await openAt(address);
    const lookUps = [...PUBLIC_SCHEMAS.keys()].map((topic) => `POST /subjects/${corner.subject(topic)}`);
    expect(requests).toEqual(lookUps);
  });

  it('refuses to start on a schema that breaks what readers of the topic rely on', async () => {
    await corner.register(corner.subject(), withField('message_id', { type: 'integer' }));
    await corner.setLevel(corner.subject(), 'FORWARD');
    const error = await failure(corner.open());
    expect(error).toBeInstanceOf(SchemaRefused);
    expect(error).toMatchObject({ subject: corner.subject(), retryable: false });
    expect(String(error)).toMatch(/incompatible.*message_id/i);
    expect(await corner.versions(corner.subject())).toHaveLength(1);
  });

  it('refuses a subject of another compatibility, which does not check what readers rely on', async () => {
    await corner.register(corner.subject(), withoutField('source_id'));
    await corner.setLevel(corner.subject(), 'BACKWARD');
    const error = await failure(corner.open());
    expect(error).toBeInstanceOf(SchemaRefused);
    expect(error).toMatchObject({
      subject: corner.subject(),
      answer: expect.stringContaining('FORWARD != BACKWARD'),
    });
    expect(await corner.versions(corner.subject())).toHaveLength(1);
  });

  it('follows the types of 0.2.0 once the operator lets them pass, and 0.2.0 starts after that', async () => {
    const before = withField('type', { type: 'string', enum: ['track', 'identify', 'page', 'group'] });
    const old = await corner.register(corner.subject(), before);
    await corner.setLevel(corner.subject(), 'FORWARD');
    expect(await failure(corner.open())).toBeInstanceOf(SchemaRefused);
    await corner.setLevel(corner.subject(), 'NONE');
    const now = idOf((await corner.open()).frame(TOPIC.accepted, '{}'));
    await corner.setLevel(corner.subject(), 'FORWARD');
    expect(idOf((await corner.open()).frame(TOPIC.accepted, '{}'))).toBe(now);
    expect(await corner.versions(corner.subject())).toEqual([old, now]);
    const found = { type: SchemaType.JSON, schema: JSON.stringify(before) } as const;
    expect(await foreign.getRegistryIdBySchema(corner.subject(), found)).toBe(old);
  });

  it('starts beside a process that registered and has not set the compatibility yet', async () => {
    let asked = 0;
    const address = await front(async (_request, response) => {
      asked += 1;
      if (asked > 1) return false;
      await corner.register(corner.subject(), accepted());
      return answer(response, 404, { error_code: 40401, message: 'Subject not found.' });
    });
    const id = idOf((await openAt(address)).frame(TOPIC.accepted, '{}'));
    expect(await corner.versions(corner.subject())).toEqual([id]);
  });

  it('follows a schema with a new version, and reads records of the old one', async () => {
    const old = await corner.register(corner.subject(), withoutField('source_id'));
    await corner.setLevel(corner.subject(), 'FORWARD');
    const framing = await corner.open();
    const now = idOf(framing.frame(TOPIC.accepted, '{}'));
    expect(await corner.versions(corner.subject())).toEqual([old, now]);
    const written = await foreign.encode(old, event('m1'));
    expect(idOf(written)).toBe(old);
    expect(JSON.parse(framing.unframe(TOPIC.accepted, written))).toEqual(event('m1'));
  });

  it('of an older release starts after a newer one registered a field more', async () => {
    const before = idOf((await corner.open()).frame(TOPIC.accepted, '{}'));
    const newer = await corner.register(corner.subject(), withField('later', { type: 'string' }));
    expect(newer).not.toBe(before);
    expect(idOf((await corner.open()).frame(TOPIC.accepted, '{}'))).toBe(before);
  });

  it('sends its credentials, and states when they are refused', async () => {
    const address = await front((request, response) => {
      if (credentialsOf(request) === 'alice:secret') return false;
      return answer(response, 401, { error_code: 401, message: 'Unauthorized' });
    });
    await openAt(address, { username: 'alice', password: 'secret' });
    for (const wrong of [{}, { username: 'alice', password: 'guess' }]) {
      const error = await failure(openAt(address, wrong));
      expect(error).toBeInstanceOf(SchemaRefused);
      expect(error).toMatchObject({ subject: corner.subject(), answer: 'Unauthorized' });
      expect(String(error)).not.toContain('guess');
    }
  });

  it('refuses an address behind which no registry is', async () => {
    const elsewhere = await failure(openAt(corner.url.replace(/\/apis.*/, '/nothing')));
    expect(elsewhere).toBeInstanceOf(SchemaRefused);
    const page = await front((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Welcome</html>');
      return true;
    });
    expect(await failure(openAt(page))).toMatchObject({
      code: 'schema_refused',
      answer: expect.stringContaining('address'),
    });
    for (const address of ['localhost:8081', 'registry', 'ftp://127.0.0.1/']) {
      expect(await failure(openAt(address))).toMatchObject({ code: 'invalid_input' });
    }
  });

  it.each([500, 503, 429])('is unavailable while the registry answers %i', async (status) => {
    const address = await front((_request, response) => answer(response, status, { message: 'not now' }));
    const error = await failure(openAt(address));
    expect(error).toBeInstanceOf(Unavailable);
    expect(String(error)).toContain('not now');
  });

  it('is unavailable while the registry is down, and opens once it is back', async () => {
    const gone = await frontOf(corner.url, () => false);
    await gone.close();
    expect(await failure(openAt(gone.url))).toBeInstanceOf(Unavailable);
    await (await corner.open()).close();
  });

  it.each(['lookup', 'registration'])(
    'is unavailable when the %s breaks off or gets no answer',
    async (step) => {
      const isStep = ({ url: path = '' }: IncomingMessage) => step === 'lookup' || path.endsWith('/versions');
      const cut = await front((request) => {
        if (isStep(request)) request.socket.destroy();
        return isStep(request);
      });
      expect(await failure(openAt(cut))).toBeInstanceOf(Unavailable);
      const silent = await front(isStep);
      const error = await failure(openAt(silent, { answerMs: 100 }));
      expect(error).toBeInstanceOf(Unavailable);
      expect(String(error)).toContain('Timeout');
    },
  );
});

function credentialsOf(request: IncomingMessage): string {
  return Buffer.from((request.headers.authorization ?? '').replace('Basic ', ''), 'base64').toString();
}

function accepted(change: (properties: Record<string, unknown>) => void = () => {}): JsonObject {
  const schema = JSON.parse(JSON.stringify(PUBLIC_SCHEMAS.get(TOPIC.accepted)));
  change(schema.properties);
  return schema;
}

/** The schema of accepted events with a field of another type. */
function withField(name: string, type: JsonObject): JsonObject {
  return accepted((properties) => {
    properties[name] = type;
  });
}

function withoutField(name: string): JsonObject {
  return accepted((properties) => {
    delete properties[name];
  });
}
