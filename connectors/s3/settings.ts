import type { JsonObject } from '@tributary/core';
import type { FieldsOf, SettingsFault } from '../settings.ts';

/** Settings of all that writes into a bucket. */
export const bucketFields = {
  endpoint: {
    type: 'string',
    title: 'Endpoint',
    description:
      'Where an S3-compatible service answers: an absolute http or https URL. Absent: AWS in the region. It must be public.',
    examples: ['https://s3.example.com'],
    maxLength: 2_048,
    pattern: '^[hH][tT][tT][pP][sS]?://[^?#@]+$',
  },
  region: {
    type: 'string',
    title: 'Region',
    description: 'The region of the bucket; services other than AWS often take any.',
    default: 'us-east-1',
    pattern: '^[a-z0-9-]{1,40}$',
  },
  bucket: {
    type: 'string',
    title: 'Bucket',
    description: 'The bucket to write to; it must be there.',
    examples: ['customer-events'],
    pattern: '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$',
  },
  prefix: {
    type: 'string',
    title: 'Prefix',
    description: 'What the name of every object begins with, a `/` after it.',
    examples: ['tributary/production'],
    default: 'tributary',
    pattern: '^[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,99}(/[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,99}){0,7}$',
  },
  path_style: {
    type: 'boolean',
    title: 'Bucket in the path',
    description:
      'Name the bucket in the path instead of the host name, as many services other than AWS ask for.',
    default: false,
  },
  access_key_id: {
    type: 'string',
    title: 'Access key id',
    description: 'Of a key that may put objects below the prefix.',
    minLength: 1,
    maxLength: 200,
    pattern: '^[\\x21-\\x7e]+$',
  },
  secret_access_key: {
    type: 'string',
    title: 'Secret access key',
    description: 'The secret of that key.',
    writeOnly: true,
    minLength: 1,
    maxLength: 200,
    pattern: '^[\\x21-\\x7e]+$',
  },
} as const satisfies JsonObject;

/** The type of these settings. */
export type BucketSettings = FieldsOf<
  typeof bucketFields,
  'bucket' | 'access_key_id' | 'secret_access_key'
> & {
  /** Of a key that is temporary; no person types it in. */
  readonly session_token?: string;
};

/** A check of these that JSON Schema cannot express. */
export function bucketFaults({ endpoint }: JsonObject): readonly SettingsFault[] {
  if (typeof endpoint !== 'string' || URL.parse(endpoint) !== null) return [];
  return [{ path: '/endpoint', message: 'must be an absolute URL' }];
}
