import { type JsonObject, Unavailable, WarehouseRefused } from '@tributary/core';
import { expect, it } from 'vitest';
import type { EgressGuard } from '../../egress/guard.ts';
import { AddressRefused } from '../../failures.ts';
import type { ConnectorContext } from '../../kind.ts';
import { upload } from './engine.ts';

/** A file that was sent to storage, and the hosts that the guard was asked for. */
async function uploaded(data: JsonObject) {
  const sent: { url: string; headers: readonly string[] }[] = [];
  const hosts: string[] = [];
  const client = {
    send: async ({ url, headers }: { readonly url: URL; readonly headers: readonly string[] }) => {
      sent.push({ url: url.href, headers });
      return '';
    },
  };
  const refuse = ({ host }: { readonly host: string }): never => {
    hosts.push(host);
    throw new AddressRefused('not from a test');
  };
  const egress = { connect: refuse } as unknown as EgressGuard;
  const context = { egress, clock: Date.now } as ConnectorContext;
  const file = { name: 'rows.json.gz', body: Buffer.from('rows') };
  const error: unknown = await upload(client, context, file, data, new AbortController().signal).catch(
    (thrown: unknown) => thrown,
  );
  return { sent, hosts, error };
}

it('a file goes to the container of Azure that the answer names', async () => {
  const { sent } = await uploaded({
    stageInfo: {
      locationType: 'AZURE',
      location: 'container/stages/1/my batch/',
      storageAccount: 'account',
      endPoint: 'blob.core.windows.net',
      creds: { AZURE_SAS_TOKEN: '?sig=a%2Bb&se=1' },
    },
  });
  expect(sent).toEqual([
    {
      url: 'https://account.blob.core.windows.net/container/stages/1/my%20batch/rows.json.gz?sig=a%2Bb&se=1',
      headers: ['x-ms-blob-type', 'BlockBlob', 'content-type', 'application/octet-stream'],
    },
  ]);
});

it('a file goes to the bucket of Google with its token', async () => {
  const { sent } = await uploaded({
    stageInfo: { locationType: 'GCS', location: 'bucket/stages/', creds: { GCS_ACCESS_TOKEN: 't' } },
  });
  expect(sent).toEqual([
    {
      url: 'https://storage.googleapis.com/bucket/stages/rows.json.gz',
      headers: ['content-type', 'application/octet-stream', 'authorization', 'Bearer t'],
    },
  ]);
});

it('a file goes to the bucket of AWS by the guard', async () => {
  const creds = { AWS_KEY_ID: 'id', AWS_SECRET_KEY: 'secret', AWS_TOKEN: 'token' };
  const { hosts, error } = await uploaded({
    stageInfo: { locationType: 'S3', location: 'bucket/stages/', region: 'eu-central-1', creds },
  });
  expect(hosts).toEqual(['bucket.s3.eu-central-1.amazonaws.com']);
  expect(error).toBeInstanceOf(Unavailable);
});

it('a stage that the client must encrypt, and a storage that is not known, get nothing', async () => {
  const encrypted = await uploaded({
    encryptionMaterial: [{ queryStageMasterKey: 'k' }],
    stageInfo: { locationType: 'GCS', location: 'bucket/stages/', creds: {} },
  });
  expect(encrypted).toMatchObject({ sent: [], error: expect.any(WarehouseRefused) });
  expect(await uploaded({ stageInfo: { locationType: 'LOCAL_FS', location: '/etc/' } })).toMatchObject({
    sent: [],
    hosts: [],
    error: expect.any(Unavailable),
  });
});
