import fc from 'fast-check';
import { expect, it } from 'vitest';
import { checkMessages } from './pool.ts';

function message(type: string, body: readonly number[] | Uint8Array | string): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body) : Buffer.from(body);
  const head = Buffer.alloc(5);
  head.write(type, 0, 'latin1');
  head.writeInt32BE(4 + bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

const passed = (bytes: Buffer, isEncrypted = false) => [...checkMessages({ isEncrypted })(bytes)];
const CLEARTEXT = message('R', [0, 0, 0, 3]);

it('a cleartext password is sent only over TLS', () => {
  expect(() => passed(CLEARTEXT)).toThrow(expect.objectContaining({ code: 'password_in_clear' }));
  expect(passed(CLEARTEXT, true)).toEqual([CLEARTEXT]);
});

const HONEST = [
  message('R', [0, 0, 0, 5, 1, 2, 3, 4]),
  message('R', Buffer.from('\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0')),
  message('R', [0, 0, 0, 0]),
  message('S', 'server_version\x0016.2\0'),
  message('K', [0, 0, 0, 1, 0, 0, 0, 2]),
  message('N', 'SNOTICE\0C00000\0Mrelation exists\0\0'),
  message('E', 'SERROR\0C42P01\0Mno table\0\0'),
  message('1', ''),
  message('2', ''),
  message('n', ''),
  message('C', 'INSERT 0 5\0'),
  message('Z', 'I'),
];

it('valid server messages are passed on one by one, in any chunks', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(400), { maxLength: 9 }), (cuts) => {
      const all = Buffer.concat(HONEST);
      const inspect = checkMessages({ isEncrypted: false });
      const given: Buffer[] = [];
      let from = 0;
      for (const to of [...cuts.map((cut) => cut % all.length).sort((a, b) => a - b), all.length]) {
        given.push(...inspect(all.subarray(from, to)));
        from = to;
      }
      expect(given).toEqual(HONEST);
    }),
  );
});

it('an unterminated error message is refused, with any bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const body = Buffer.from(bytes);
      const fields = body.toString('latin1').split('\0');
      // Texts of at least one character, each followed by a zero byte, and a final zero byte.
      const isWhole =
        body.length > 0 &&
        body.at(-1) === 0 &&
        fields.slice(0, -2).every((field) => field !== '') &&
        fields.at(-2) === '';
      const inspect = () => passed(message('E', body));
      if (isWhole) expect(inspect()).toHaveLength(1);
      else expect(inspect).toThrow(expect.objectContaining({ code: 'answer_refused' }));
    }),
  );
});

const ROWS = [
  message('T', Buffer.from('\0\x01id\0AAAABBCCCCDDEEEEFF')),
  message('D', Buffer.from('\0\x02\0\0\0\x02ab\xff\xff\xff\xff', 'latin1')),
  message('G', [0, 0, 1, 0, 0]),
];

it('rows are passed on for statements that have some only', () => {
  for (const one of ROWS) {
    expect([...checkMessages({ isEncrypted: false, hasRows: true })(one)]).toEqual([one]);
    expect(() => passed(one)).toThrow(expect.objectContaining({ code: 'answer_refused' }));
  }
});

it('a row that is longer or shorter than it says is refused', () => {
  const inspect = (type: string, body: readonly number[]) => () => [
    ...checkMessages({ isEncrypted: false, hasRows: true })(message(type, body)),
  ];
  for (const [type, body] of [
    ['T', [0]],
    ['T', [0, 1, 65, 0, 1, 2]],
    ['D', [0, 1, 0, 0, 0, 9, 65]],
    ['D', [0, 1, 255, 255, 255, 254]],
    ['D', [0, 0, 1]],
    ['G', [0, 0, 9]],
  ] as const)
    expect(inspect(type, body)).toThrow(expect.objectContaining({ code: 'answer_refused' }));
});
