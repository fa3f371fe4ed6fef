import { type JsonObject, objectIn, Unavailable, WarehouseRefused } from '@tributary/core';
import type { ConnectorContext } from '../../kind.ts';
import { openBucketClient } from '../../s3/client.ts';
import { classifyS3Failure } from '../../s3/connector.ts';
import type { SnowflakeClient } from './client.ts';

/** A file is put within this time, ms. */
const PUT_MS = 120_000;

/**
 * Puts a file to where the answer to `PUT` says: storage of AWS, Azure or Google that belongs to the account. The stage is
 * encrypted there, so the file goes as it is.
 */
export async function upload(
  client: Pick<SnowflakeClient, 'send'>,
  { egress, clock }: ConnectorContext,
  { name, body }: { readonly name: string; readonly body: Uint8Array },
  data: JsonObject,
  signal: AbortSignal,
): Promise<void> {
  const { encryptionMaterial } = data;
  const stage = objectIn(data.stageInfo);
  const { locationType, location, region, endPoint, storageAccount, presignedUrl } = stage;
  const creds = objectIn(stage.creds);
  const hasMaterial = Array.isArray(encryptionMaterial)
    ? encryptionMaterial.some(Boolean)
    : !!encryptionMaterial;
  if (hasMaterial)
    throw new WarehouseRefused(
      'the stage _TRIBUTARY_STAGE must be of the encryption SNOWFLAKE_SSE: drop it, it is made again',
    );
  const [container = '', ...folders] = text(location).split('/');
  const path = `${folders.join('/')}${name}`;
  const encoded = path.split('/').map(encodeURIComponent).join('/');

  switch (locationType) {
    case 'S3': {
      const bucket = openBucketClient(egress, {
        region: text(region),
        bucket: container,
        path_style: false,
        access_key_id: text(creds.AWS_KEY_ID),
        secret_access_key: text(creds.AWS_SECRET_KEY),
        session_token: text(creds.AWS_TOKEN),
        ...(typeof endPoint === 'string' && endPoint !== '' ? { endpoint: `https://${endPoint}` } : {}),
      });
      const timeout = AbortSignal.timeout(PUT_MS);
      try {
        await bucket.put(path, body, AbortSignal.any([signal, timeout]));
      } catch (error) {
        if (signal.aborted || timeout.aborted)
          throw new Unavailable(signal.aborted ? 'stopped' : 'timed out', { cause: error });
        const result = classifyS3Failure(error, bucket.lastFailure, clock());
        if (result === undefined) throw error;
        // The key is one of Snowflake's, and new for each file.
        throw new Unavailable(`the stage: ${'reason' in result ? result.reason : result.outcome}`, {
          cause: error,
        });
      } finally {
        await bucket.close();
      }
      return;
    }
    case 'AZURE': {
      const url = addressOf(
        `https://${text(storageAccount)}.${text(endPoint) || 'blob.core.windows.net'}/${container}/${encoded}`,
      );
      url.search = text(creds.AZURE_SAS_TOKEN);
      const headers = ['x-ms-blob-type', 'BlockBlob', 'content-type', 'application/octet-stream'];
      await client.send({ method: 'PUT', url, headers, body }, signal);
      return;
    }
    case 'GCS': {
      const token = text(creds.GCS_ACCESS_TOKEN);
      const url = addressOf(text(presignedUrl) || `https://storage.googleapis.com/${container}/${encoded}`);
      const headers = ['content-type', 'application/octet-stream'];
      if (token !== '') headers.push('authorization', `Bearer ${token}`);
      await client.send({ method: 'PUT', url, headers, body }, signal);
      return;
    }
    default:
      throw new Unavailable('Snowflake names a storage that is not known here');
  }
}

function text(value: JsonObject[string] | undefined): string {
  return typeof value === 'string' ? value : '';
}

function addressOf(url: string): URL {
  const parsed = URL.parse(url);
  if (parsed === null) throw new Unavailable('Snowflake does not say where to put the file');
  return parsed;
}
