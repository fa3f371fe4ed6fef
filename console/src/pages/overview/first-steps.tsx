import { Alert, Group, Loader, Stack, Text, Timeline } from '@mantine/core';
import { useMay } from '../../frame/workspace.tsx';
import { CopyField } from '../../shared/copy-field.tsx';
import { ButtonLink } from '../../shared/links.tsx';
import { PLACEHOLDER, snippetsOf } from '../keys/snippets.ts';

interface Props {
  readonly workspaceId: string;
  readonly hasKey: boolean;
}

/** The steps to the first event of a workspace. The overview replaces them by itself once an event has arrived. */
export function FirstSteps({ workspaceId, hasKey }: Props) {
  const mayCreate = useMay('editor');
  const [curl] = snippetsOf({ url: location.origin, writeKey: PLACEHOLDER });
  return (
    <Stack maw={760}>
      <Text>No event has come to this workspace yet. Three steps to the first one:</Text>
      <Timeline active={hasKey ? 1 : 0} bulletSize={24} lineWidth={2}>
        <Timeline.Item title={hasKey ? 'A write key is there' : 'Create a write key'} bullet="1">
          <Stack gap="xs" align="flex-start">
            <Text size="sm">It says which workspace and source an event belongs to.</Text>
            <ButtonLink
              to="/w/$workspaceId/keys"
              params={{ workspaceId }}
              variant={hasKey ? 'default' : 'filled'}
              size="xs"
            >
              {hasKey ? 'See the keys, with snippets for every SDK' : 'Create a write key'}
            </ButtonLink>
            {!mayCreate && <Text size="sm">Your role does not allow to create one: ask an editor.</Text>}
          </Stack>
        </Timeline.Item>
        <Timeline.Item title="Send an event" bullet="2">
          <Stack gap="xs">
            <Text size="sm">With the key in place of {PLACEHOLDER}:</Text>
            {curl !== undefined && <CopyField value={curl.code} label="the command" block />}
          </Stack>
        </Timeline.Item>
        <Timeline.Item title="See it arrive" bullet="3">
          <Stack gap="xs" align="flex-start">
            <Alert
              role="status"
              color="blue"
              icon={<Loader size={16} aria-hidden />}
              title="Waiting for the first event"
            >
              This page turns into the overview by itself.
            </Alert>
            <Group>
              <ButtonLink to="/w/$workspaceId/live" params={{ workspaceId }} variant="default" size="xs">
                Watch events live
              </ButtonLink>
            </Group>
          </Stack>
        </Timeline.Item>
      </Timeline>
    </Stack>
  );
}
