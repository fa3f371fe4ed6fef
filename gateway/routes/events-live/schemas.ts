import type { Readable } from 'node:stream';
import { ENVIRONMENTS } from '@tributary/core';
import { Type } from 'typebox';
import { closed, documentedAs, oneOf } from '../../resources/schemas.ts';

export const liveQuery = closed({
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
});

export const liveBody = Type.Unsafe<Readable>({
  type: 'string',
  ...documentedAs({
    type: 'object',
    properties: {
      event: { enum: ['event', 'missed', 'interrupted', 'resumed', 'end'] },
      id: { type: 'string', description: 'For `Last-Event-ID`.' },
      data: { type: 'string', contentMediaType: 'application/json' },
    },
  }),
  description:
    'Server-Sent Events, of which this is one. `event`: one event of the workspace with its `outcome` and `violations`; ' +
    '`missed`: so many events (null: nobody knows how many) are kept no more; `interrupted` and `resumed`: nothing is ' +
    'seen in between; `end`: why the stream ends.',
});
