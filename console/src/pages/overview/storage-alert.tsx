import { Alert } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { storageQuery } from './overview-calls.ts';
import { storageWarning } from './storage.ts';

/** A line where a budget of bytes is nearly or completely used. */
export function StorageAlert({ workspaceId }: { readonly workspaceId: string }) {
  const { data } = useQuery(storageQuery(workspaceId));
  const warning = data && storageWarning(data);
  if (warning === undefined) return null;
  return (
    <Alert role="alert" color={warning.isOver ? 'red' : 'yellow'} title={warning.title}>
      {warning.text}
    </Alert>
  );
}
