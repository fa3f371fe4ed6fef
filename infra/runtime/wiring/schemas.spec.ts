import {
  NO_LOGGER,
  PLAIN_FRAMING,
  SchemaRefused,
  TOPIC,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { lateSchemas } from './schemas.ts';

const FRAMED = Buffer.from('framed');
const FRAMING: ValueFraming = { ...PLAIN_FRAMING, frame: () => FRAMED };

/** Schemas of a registry that gives these answers in turn. */
function setUp(...answers: readonly (ValueFraming | Error)[]) {
  const left = [...answers];
  let asked = 0;
  const open = async () => {
    asked += 1;
    const answer = left.length > 1 ? left.shift() : left[0];
    if (answer === undefined || answer instanceof Error) throw answer;
    return answer;
  };
  const schemas = lateSchemas(open, NO_LOGGER, 5);
  onTestFinished(() => schemas.close());
  const published: unknown[] = [];
  const publish = schemas.published(async (changes) => void published.push(...changes));
  return { schemas, publish, published, asked: () => asked };
}

describe('late schemas', () => {
  it('frame only the public topics, once the registry has answered', async () => {
    const { schemas, publish } = setUp(new Unavailable('down'), new Unavailable('down'), FRAMING);
    expect(schemas.framing.frame('events.production', '{}').toString()).toBe('{}');
    await schemas.begin();
    expect(() => schemas.framing.frame(TOPIC.profileChanges, '{}')).toThrow(Unavailable);
    await expect(publish([])).rejects.toThrow(Unavailable);
    await expect.poll(() => publish([]).then(() => 'published', String)).toBe('published');
    expect(schemas.framing.frame(TOPIC.profileChanges, '{}')).toBe(FRAMED);
    expect(schemas.framing.frame('events.production', '{}').toString()).toBe('{}');
  });

  it('fail the start if the registry refuses, but not a running process', async () => {
    const refused = new SchemaRefused('a subject', 'incompatible');
    await expect(setUp(refused).schemas.begin()).rejects.toBe(refused);
    const { schemas, publish, asked } = setUp(new Unavailable('down'), refused, FRAMING);
    await schemas.begin();
    await expect.poll(() => publish([]).then(() => 'published', String)).toBe('published');
    expect(asked()).toBe(3);
  });

  it.each([
    ['fails', new Unavailable('down')],
    ['is answered', undefined],
  ])(
    'make no further request where an attempt under way %s after they were closed',
    async (_how, failure) => {
      let asked = 0;
      let framingsOpen = 0;
      const underWay = Promise.withResolvers<void>();
      const open = async () => {
        asked += 1;
        if (asked === 1) throw new Unavailable('down');
        await underWay.promise;
        if (failure !== undefined) throw failure;
        framingsOpen += 1;
        const close = async () => {
          framingsOpen -= 1;
        };
        return { ...FRAMING, close };
      };
      const schemas = lateSchemas(open, NO_LOGGER, 5);
      await schemas.begin();
      await expect.poll(() => asked).toBe(2);
      await schemas.close();
      underWay.resolve();
      await new Promise((resolve) => setTimeout(resolve, 30));
      expect({ asked, framingsOpen }).toEqual({ asked: 2, framingsOpen: 0 });
    },
  );
});
