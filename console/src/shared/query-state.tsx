import { Alert, Skeleton, Stack } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ErrorAlert } from './error-alert.tsx';

interface Props<T> {
  readonly query: UseQueryResult<T>;
  /** Placeholder rows while it loads. */
  readonly rows?: number;
  readonly children: (data: T) => ReactNode;
}

/** Shows the loading, the error or the data of a query. Earlier data stays while a later request fails. */
export function QueryState<T>({ query, rows = 4, children }: Props<T>) {
  const retry = () => void query.refetch();
  if (query.data !== undefined)
    return (
      <>
        {query.error !== null && <ErrorAlert error={query.error} retry={retry} />}
        {children(query.data)}
      </>
    );
  if (query.error !== null) return <ErrorAlert error={query.error} retry={retry} />;
  return (
    <Stack gap="sm" role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: placeholders have nothing else
        <Skeleton key={row} height={36} />
      ))}
      {query.failureCount > 0 && <Alert color="yellow" title="No answer yet, trying again" />}
    </Stack>
  );
}
