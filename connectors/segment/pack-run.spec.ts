import { expect, test } from 'vitest';
import { DEFINITIONS } from './connector.ts';
import { refusalIn, VENDOR_ANSWERS } from './pack-run.ts';
import { refusesToken } from './token-refusals.ts';

const bytes = (body: string) => new TextEncoder().encode(body);

test.each<[string, string, string | undefined, number | undefined]>([
  ['tiktok-conversions', '{"code":0,"message":"OK"}', undefined, undefined],
  ['tiktok-conversions', '{"code":40002,"message":"no pixel"}', 'code 40002 no pixel', 400],
  ['tiktok-app-events', '{"code":40100}', 'code 40100', 429],
  ['tiktok-offline-conversions', '{"code":40105}', 'code 40105', 401],
  ['tiktok-conversions', '{"code":51000}', 'code 51000', 500],
  ['pinterest-conversions', '{"num_events_received":1,"num_events_processed":1}', undefined, undefined],
  [
    'pinterest-conversions',
    '{"num_events_received":1,"num_events_processed":0}',
    'num_events_processed 0',
    undefined,
  ],
  ['braze', '{"message":"queued"}', undefined, undefined],
  ['airship', '{"ok":true,"operation_id":"o"}', undefined, undefined],
  ['airship', '{"ok":false}', 'ok false', undefined],
  ['clevertap', '{"status":"success","processed":1,"unprocessed":[]}', undefined, undefined],
  [
    'clevertap',
    '{"status":"fail","processed":0,"unprocessed":[{"status":"fail","code":525,"error":"Timestamp not an epoch"}]}',
    'unprocessed, code 525 Timestamp not an epoch',
    400,
  ],
  ['clevertap', '{"unprocessed":[{"code":555}]}', 'unprocessed, code 555', 500],
  ['facebook-conversions-api', '{"events_received":1,"messages":[],"fbtrace_id":"f"}', undefined, undefined],
  ['facebook-conversions-api', '{"events_received":0}', 'events_received 0', undefined],
  ['loops', '{"success":true,"id":"i"}', undefined, undefined],
  ['loops', '{"success":false}', 'success false', undefined],
  ['pipedrive', '{"success":true,"data":{"id":1}}', undefined, undefined],
  ['pipedrive', '{"success":false}', 'success false', undefined],
  ['iterable-lists', '{"successCount":1,"failCount":0}', undefined, undefined],
  ['iterable-audiences', '{"successCount":0,"failCount":1}', 'failCount 1', undefined],
  ['marketo-static-lists', '{"success":true,"result":[{"id":1,"status":"added"}]}', undefined, undefined],
  ['marketo-static-lists', '{"success":false,"errors":[{"code":"1003"}]}', 'success false, 1003', undefined],
  [
    'marketo-static-lists',
    '{"success":true,"result":[{"status":"skipped","reasons":[{"code":"1004"}]}]}',
    'status skipped, 1004',
    undefined,
  ],
])('%s, by the body %s', (destination, body, says, code) => {
  const refusal = refusalIn(destination, bytes(body));
  expect([refusal?.says, refusal?.code]).toEqual([says, code]);
});

test('an expired token in a 200 was an event that could not be sent', () => {
  const expired = bytes('{"success":false,"errors":[{"code":"602","message":"Access token expired"}]}');
  expect(refusesToken('marketo-static-lists', expired)).toBe(true);
  expect(refusesToken('marketo-static-lists', bytes('{"success":false,"errors":[{"code":"1003"}]}'))).toBe(
    false,
  );
  expect(refusesToken('listrak', expired)).toBe(false);
});

test('every entry is a destination that is offered, and every refusal has its source', () => {
  const known = new Set(DEFINITIONS.map(({ destination }) => destination));
  for (const [destination, { refusals, document }] of Object.entries(VENDOR_ANSWERS)) {
    expect(known).toContain(destination);
    expect(document === undefined, destination).toBe(refusals === undefined);
  }
});
