import { FRAME_HEADER_BYTES, FRAME_MARKER, PUBLIC_SCHEMAS, TOPIC, type ValueFraming } from '@tributary/core';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const PUBLIC = [...PUBLIC_SCHEMAS.keys()];
const INTERNAL = ['events.production', TOPIC.eventsSlow, TOPIC.deliveries, TOPIC.catalog, 'of.an.operator'];

const json = fc.jsonValue().map((value) => JSON.stringify(value));

/** The contract of the `ValueFraming` port. */
export function valueFramingConformance(harness: ValueFramingHarness): void {
  describe(`the ${harness.name} value framing`, () => {
    let framing: ValueFraming;
    beforeAll(async () => {
      framing = await harness.open();
    });
    afterAll(async () => {
      await framing.close();
      await framing.close();
      await harness.dispose();
    });

    it.each([...PUBLIC, ...INTERNAL])('gives back what %s was given', (topic) => {
      fc.assert(
        fc.property(json, (value) => {
          expect(framing.unframe(topic, framing.frame(topic, value))).toBe(value);
        }),
      );
    });

    it.each(INTERNAL)('writes plain JSON to %s', (topic) => {
      fc.assert(
        fc.property(json, (value) => {
          expect(framing.frame(topic, value).equals(Buffer.from(value, 'utf8'))).toBe(true);
        }),
      );
    });

    it.each(PUBLIC)('leaves the bytes of the JSON on %s as they are', (topic) => {
      const header = harness.frames ? FRAME_HEADER_BYTES : 0;
      fc.assert(
        fc.property(json, (value) => {
          const bytes = framing.frame(topic, value);
          expect(bytes.subarray(header).equals(Buffer.from(value, 'utf8'))).toBe(true);
          expect(bytes[0] === FRAME_MARKER).toBe(harness.frames);
        }),
      );
    });

    it.each(PUBLIC)('reads plain JSON on %s, from before or after a registry', (topic) => {
      fc.assert(
        fc.property(json, (value) => {
          expect(framing.unframe(topic, Buffer.from(value, 'utf8'))).toBe(value);
        }),
      );
    });

    it.each(PUBLIC)('reads values framed on %s with any schema id', (topic) => {
      fc.assert(
        fc.property(json, fc.integer({ min: 0, max: 0xffffffff }), (value, id) => {
          const header = Buffer.alloc(FRAME_HEADER_BYTES);
          header.writeUInt32BE(id, 1);
          expect(framing.unframe(topic, Buffer.concat([header, Buffer.from(value, 'utf8')]))).toBe(value);
        }),
      );
    });

    it('frames and reads an empty text', () => {
      for (const topic of [...PUBLIC, ...INTERNAL]) {
        expect(framing.unframe(topic, framing.frame(topic, ''))).toBe('');
      }
    });
  });
}

/** Access of the suite to one adapter. */
interface ValueFramingHarness {
  readonly name: string;
  /** True when the public topics carry the ids of their schemas. */
  readonly frames: boolean;
  open(): Promise<ValueFraming>;
  /** Removes everything that opening created. */
  dispose(): Promise<void>;
}
