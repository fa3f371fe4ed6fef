import { Button, Group, Loader, Modal, NativeSelect, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Schemas } from '../../api/client.ts';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { dryRunContract, type LookBack } from './contract-calls.ts';
import { DryRunReport } from './dry-run-report.tsx';

const LOOK_BACKS: readonly (LookBack & { readonly label: string })[] = [
  { hours: 24, events: 1_000, label: 'The last 1,000 events of 24 hours' },
  { hours: 24, events: 10_000, label: 'The last 10,000 events of 24 hours' },
  { hours: 168, events: 10_000, label: 'The last 10,000 events of 7 days' },
];

interface Props {
  readonly workspaceId: string;
  /** Absent: a new contract. */
  readonly contractId?: string | undefined;
  readonly body: Schemas['ContractBody'];
  readonly saveLabel: string;
  readonly onSave: () => void;
  readonly onClose: () => void;
}

/** Shows the effect of a contract on recent events before it is saved. */
export function ReviewDialog({ workspaceId, contractId, body, saveLabel, onSave, onClose }: Props) {
  const [chosen, setChosen] = useState(0);
  const [lookBack = { hours: 24, events: 1_000 }] = LOOK_BACKS.slice(chosen);
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ['contract-dry-run', workspaceId, contractId, body, lookBack.hours, lookBack.events],
    queryFn: ({ signal }) => dryRunContract(workspaceId, contractId, body, lookBack, signal),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const wouldReject = data !== undefined && data.outcomes.rejected > 0;
  return (
    <Modal opened onClose={onClose} size="xl" title="What it would do to recent events">
      <Stack>
        <NativeSelect
          label="Events to look at"
          value={chosen}
          data={LOOK_BACKS.map(({ label }, index) => ({ value: String(index), label }))}
          onChange={({ currentTarget: { value } }) => setChosen(Number(value))}
        />
        {isFetching ? (
          <Group gap="xs" role="status">
            <Loader size="sm" />
            <Text>Trying the contract on recent events</Text>
          </Group>
        ) : (
          error !== null && <ErrorAlert error={error} retry={() => void refetch()} />
        )}
        {!isFetching && data !== undefined && error === null && <DryRunReport result={data} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Back to the form
          </Button>
          <Button {...(wouldReject && { color: 'red' })} disabled={isFetching} onClick={onSave}>
            {error !== null ? `${saveLabel} without trying it` : saveLabel}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
