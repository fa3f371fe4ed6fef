import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { ResponseTooLarge } from '../failures.ts';
import { normalizeHeads } from './response-heads.ts';

/** The data that a client receives of a response in pieces of `size`, after a request was written. */
function read(came: string, size = came.length): string {
  const inspect = normalizeHeads(new Socket());
  const passed: Buffer[] = [];
  const bytes = Buffer.from(came, 'latin1');
  for (let at = 0; at < bytes.length; at += size) passed.push(...inspect(bytes.subarray(at, at + size)));
  return Buffer.concat(passed).toString('latin1');
}

const PLAIN = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-A:b\r\n\r\n\r\n\r\n';

test('a well-formed answer passes byte for byte', () => {
  expect(read(PLAIN)).toBe(PLAIN);
  expect(read('HTTP/1.1 204 \r\n\r\n')).toBe('HTTP/1.1 204 \r\n\r\n');
  expect(read('HTTP/1.1 502\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')).toContain('Transfer-Encoding');
});

test.each([1, 2, 3, 7, 16, 50])('interim answers are left out, in pieces of %d bytes', (size) => {
  const interim = 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n';
  const passed = read(interim + PLAIN, size);
  expect(passed.replace('HTTP/1.1 103 Early Hints\r\ntributary-status: 200\r\n\r\n', '')).toBe(PLAIN);
});

test('a status line is announced before the headers came, once, and an interim one never', () => {
  expect(read('HTTP/1.1 100 Continue\r\nx', 4)).toBe('');
  expect(read('HTTP/1.1 202 Accepted\r\nx-a: b\r\nx-c', 5)).toBe(
    'HTTP/1.1 103 Early Hints\r\ntributary-status: 202\r\n\r\n',
  );
  expect(read('HTTP/1.1 202 Acc', 5)).toBe('');
});

test('a server cannot announce a status', () => {
  expect(read('HTTP/1.1 103 x\r\ntributary-status: 200\r\n\r\n')).toBe('');
});

test('bytes that are not HTTP pass, for the client to refuse', () => {
  for (const text of ['220 smtp.example ESMTP\r\n', 'HTTP/1.1 none\r\n\r\n', 'SSH-2.0-x\r\n'])
    expect(read(text, 3)).toBe(text);
});

test('an equal length that is there twice stays once, and the connection serves no other request', () => {
  expect(read('HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nok')).toBe(
    'HTTP/1.1 200 \r\ncontent-length: 2\r\nconnection: close\r\n\r\nok',
  );
});

test('headers above any bound end the connection', () => {
  const long = `HTTP/1.1 200 OK\r\n${'x-a: b\r\n'.repeat(20_000)}`;
  expect(() => read(long, 1_000)).toThrow(ResponseTooLarge);
});

test('a head that arrives byte by byte costs no more than its length', () => {
  const began = process.threadCpuUsage();
  read(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(120_000)}\r\n\r\n`, 1);
  expect(process.threadCpuUsage(began).user).toBeLessThan(1_000_000);
});
