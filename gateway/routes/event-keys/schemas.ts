import { ENVIRONMENTS } from '@tributary/core';
import { Type } from 'typebox';
import { closed, listOf, name, nullable, oneOf, optional, uuid } from '../../resources/schemas.ts';
import { keyFields, rawKey } from '../keys/key-resource.ts';

const topic = Type.String({ description: 'The received topic its events go to.' });

export const writeKeyBody = closed(
  {
    name,
    environment: oneOf(ENVIRONMENTS),
    pubsub_topic: optional(topic),
    source_id: optional(Type.String({ format: 'uuid', description: 'The source its events come from.' })),
    collect_ip: optional(
      Type.Boolean({
        description:
          'Fill `context.ip` of its events with the address they are sent from, where they have none. Addresses are personal data. Default false.',
      }),
    ),
  },
  { title: 'WriteKeyBody', examples: [{ name: 'shop', environment: 'production' }] },
);

const fields = {
  ...keyFields,
  environment: oneOf(ENVIRONMENTS),
  pubsub_topic: topic,
  source_id: nullable(uuid),
  collect_ip: Type.Boolean(),
};

export const writeKeyResource = Type.Object(fields, { title: 'WriteKey' });

export const createdWriteKey = Type.Object({ ...fields, ...rawKey }, { title: 'CreatedWriteKey' });

export const writeKeyList = listOf(writeKeyResource);
