import { Alert, Button, Group, List, Loader, Stack, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import type { ApiError } from '../../api/errors.ts';

interface Props {
  readonly error: ApiError;
  readonly isFetching: boolean;
  /** The time to search around, from the URL. */
  readonly around: string | undefined;
}

/** Shown while the event is not found. The page polls for it. */
export function NotFoundYet({ error, isFetching, around }: Props) {
  const wasCut = isCut(error.body.looked);
  return (
    <Stack>
      <Alert
        role="status"
        color="blue"
        title="Not found yet"
        icon={<Loader size={16} aria-hidden type={isFetching ? 'oval' : 'dots'} />}
      >
        <Stack gap="xs">
          <Text size="sm">
            An event can be found some seconds after it was accepted. This page looks again by itself.
          </Text>
          {wasCut && <Text size="sm">The last look was ended by its time: not everything was read.</Text>}
          <Text size="sm">If it stays like this:</Text>
          <List size="sm">
            <List.Item>
              Is it the message_id that the API answered, or that you sent, in this workspace?
            </List.Item>
            <List.Item>Was it answered with success? Events with faults are refused at once.</List.Item>
            <List.Item>It can be found for as long as the log keeps events.</List.Item>
          </List>
        </Stack>
      </Alert>
      <AroundForm around={around} />
    </Stack>
  );
}

/** Asks for the time of receipt: an old event whose id the sender chose can be found only with it. */
function AroundForm({ around }: { readonly around: string | undefined }) {
  const navigate = useNavigate({ from: '/w/$workspaceId/events/$messageId' });
  const [text, setText] = useState(around === undefined ? '' : localInput(new Date(around)));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const time = new Date(text);
    if (Number.isNaN(time.getTime())) return;
    void navigate({ search: (kept) => ({ ...kept, around: time.toISOString() }) });
  };
  return (
    <form onSubmit={submit}>
      <Group align="flex-end" gap="xs">
        <TextInput
          type="datetime-local"
          label="Older than a day, with an id of your own?"
          description="Enter the approximate time of receipt; two minutes around it are searched"
          value={text}
          onChange={({ currentTarget }) => setText(currentTarget.value)}
        />
        <Button type="submit" variant="default" disabled={text === ''}>
          Look around this time
        </Button>
      </Group>
    </form>
  );
}

/** A time as `datetime-local` has it, in the viewer's zone. */
function localInput(time: Date): string {
  const local = new Date(time.getTime() - time.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

function isCut(looked: unknown): boolean {
  return typeof looked === 'object' && looked !== null && 'complete' in looked && looked.complete === false;
}
