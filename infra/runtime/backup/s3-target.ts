import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { messageOf } from '@tributary/core';
import { OperatorError } from '../process/lifecycle.ts';
import type { BackupTarget } from './target.ts';

export interface S3TargetOptions {
  readonly bucket: string;
  /** Without a final `/`; may be empty. */
  readonly prefix: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/**
 * A bucket of S3, or of a service that speaks as it does (`AWS_ENDPOINT_URL_S3`). Region and credentials come from where
 * every tool of AWS looks for them: `AWS_*` variables, profiles, roles. The client retries what is transient.
 */
export function openS3Target({ bucket, prefix, environment }: S3TargetOptions): BackupTarget {
  const endpoint = environment.AWS_ENDPOINT_URL_S3 ?? environment.AWS_ENDPOINT_URL;
  const { AWS_REGION: region, AWS_ACCESS_KEY_ID: accessKeyId } = environment;
  const { AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN: sessionToken } = environment;
  const client = new S3Client({
    ...(region === undefined ? {} : { region }),
    // Names of buckets are no host names at most services that are not AWS.
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : {
          credentials: {
            accessKeyId,
            secretAccessKey,
            ...(sessionToken === undefined ? {} : { sessionToken }),
          },
        }),
    maxAttempts: 5,
    // Not every compatible service supports the newer checksums; content is checked by its own.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  const name = `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`;
  const keyOf = (key: string) => (prefix === '' ? key : `${prefix}/${key}`);
  const attempt = async <T>(doing: string, call: () => Promise<T>): Promise<T> => {
    try {
      return await call();
    } catch (error) {
      throw new OperatorError(`${name} cannot be ${doing}: ${nameOf(error)}${messageOf(error)}`, {
        cause: error,
      });
    }
  };
  return {
    name,
    staging: undefined,

    list: (below) =>
      attempt('listed', async () => {
        const sizes = new Map<string, number>();
        let token: string | undefined;
        do {
          const page = await client.send(
            new ListObjectsV2Command({
              Bucket: bucket,
              Prefix: `${keyOf(below)}/`,
              ...(token === undefined ? {} : { ContinuationToken: token }),
            }),
          );
          for (const { Key: key, Size: size } of page.Contents ?? [])
            if (key !== undefined) sizes.set(key.slice(keyOf('').length), size ?? 0);
          token = page.NextContinuationToken;
        } while (token !== undefined);
        return sizes;
      }),

    put: (key, content) =>
      attempt('written to', async () => {
        await client.send(new PutObjectCommand({ Bucket: bucket, Key: keyOf(key), Body: content }));
      }),

    get: (key) =>
      attempt('read', async () => {
        try {
          const { Body: body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: keyOf(key) }));
          return await body?.transformToByteArray();
        } catch (error) {
          if (error instanceof Error && error.name === 'NoSuchKey') return undefined;
          throw error;
        }
      }),

    remove: (key) =>
      attempt('written to', async () => {
        await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: keyOf(key) }));
      }),

    close: () => client.destroy(),
  };
}

/** The code of the service, e.g. `NoSuchBucket: `, which its messages do not always have. */
function nameOf(error: unknown): string {
  return error instanceof Error && error.name !== 'Error' ? `${error.name}: ` : '';
}
