import type { Schemas } from '../../api/client.ts';
import { Timestamp } from '../../shared/timestamp.tsx';

const STOPPED = {
  events: 'as many events as requested',
  records: 'as much of the log as one request may read',
  bytes: 'as much of the log as one request may read',
  time: 'as much of the log as one request may read',
} as const;

/** The range of the log that was read, in a sentence. */
export function CoverageText({ coverage }: { readonly coverage: Schemas['Coverage'] }) {
  const { since, oldest, stopped_by, complete, omitted } = coverage;
  return (
    <>
      {complete || stopped_by === null ? (
        <>
          Looked at every event since <Timestamp value={since} />.
        </>
      ) : (
        <>
          Looked back to <Timestamp value={oldest ?? since} />, {STOPPED[stopped_by]}.
        </>
      )}
      {omitted > 0 &&
        ` ${omitted} of them had undeclared fields removed before, and were read without these.`}
    </>
  );
}
