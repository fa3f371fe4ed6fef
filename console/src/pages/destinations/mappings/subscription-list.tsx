import { Accordion, ActionIcon, Button, Group, Menu, ScrollArea, Stack, Switch, Text } from '@mantine/core';
import { DotsVerticalIcon, PlusIcon } from '@radix-ui/react-icons';
import { EmptyState } from '../../../shared/empty-state.tsx';
import {
  type Action,
  freeKey,
  newSubscription,
  type SubscriptionDraft,
  type SubscriptionFault,
} from './subscription-draft.ts';
import { type EditorHelp, SubscriptionEditor } from './subscription-editor.tsx';
import { triggerText } from './trigger.ts';

interface Props {
  readonly actions: readonly Action[];
  readonly drafts: readonly SubscriptionDraft[];
  readonly onChange: (drafts: readonly SubscriptionDraft[]) => void;
  readonly faults: readonly SubscriptionFault[];
  readonly opened: string | null;
  readonly onOpen: (key: string | null) => void;
  readonly help: EditorHelp;
}

/** The subscriptions in their order: to switch, to open, to duplicate, to move and to delete. */
export function SubscriptionList({ actions, drafts, onChange, faults, opened, onOpen, help }: Props) {
  const replace = (next: SubscriptionDraft) =>
    onChange(drafts.map((one) => (one.key === next.key ? next : one)));
  const add = (draft: SubscriptionDraft) => {
    onChange([...drafts, draft]);
    onOpen(draft.key);
  };
  return (
    // The place of the form's own message about them, which each field repeats.
    <Stack gap="sm" data-path="subscriptions" tabIndex={-1} style={{ outline: 'none' }}>
      {drafts.length === 0 && (
        <EmptyState title="No mapping yet">
          <Text c="dimmed">Without one nothing is sent.</Text>
        </EmptyState>
      )}
      <Accordion
        variant="contained"
        chevronPosition="left"
        value={opened}
        onChange={onOpen}
        keepMounted={false}
      >
        {drafts.map((draft, index) => {
          const action = actions.find((one) => one.action === draft.action);
          const own = faults.filter(({ key }) => key === draft.key);
          return (
            <Accordion.Item key={draft.key} value={draft.key}>
              <Group wrap="nowrap" gap="xs" pr="sm">
                <Accordion.Control>
                  <Text fw={500} lineClamp={1}>
                    {draft.name || (action?.title ?? draft.action)}
                  </Text>
                  <Text size="xs" c={own.length > 0 ? 'red' : 'dimmed'} lineClamp={2}>
                    {own.length > 0 ? 'Needs a change' : summaryOf(draft, action)}
                  </Text>
                </Accordion.Control>
                <Switch
                  aria-label={`Enable ${draft.name}`}
                  disabled={help.disabled}
                  checked={draft.enabled}
                  onChange={({ currentTarget }) => replace({ ...draft, enabled: currentTarget.checked })}
                />
                <More
                  name={draft.name}
                  disabled={help.disabled}
                  isFirst={index === 0}
                  isLast={index === drafts.length - 1}
                  onDuplicate={() =>
                    add({ ...draft, key: freeKey(drafts), name: `${draft.name} (copy)`.slice(0, 200) })
                  }
                  onMove={(by) => onChange(moved(drafts, index, by))}
                  onDelete={() => onChange(drafts.filter(({ key }) => key !== draft.key))}
                />
              </Group>
              <Accordion.Panel>
                <SubscriptionEditor
                  draft={draft}
                  index={index}
                  action={action}
                  onChange={replace}
                  faults={own}
                  help={help}
                />
              </Accordion.Panel>
            </Accordion.Item>
          );
        })}
      </Accordion>
      <NewMapping
        actions={actions}
        disabled={help.disabled}
        onAdd={(action) => add(newSubscription(action, freeKey(drafts)))}
      />
    </Stack>
  );
}

/** The action, where the name does not say it, and the trigger. */
function summaryOf({ name, action, trigger }: SubscriptionDraft, about: Action | undefined): string {
  const title = about?.title ?? action;
  return title === name ? triggerText(trigger) : `${title}: ${triggerText(trigger)}`;
}

function moved<T>(items: readonly T[], index: number, by: -1 | 1): readonly T[] {
  const others = items.filter((_, at) => at !== index);
  return [...others.slice(0, index + by), ...items.slice(index, index + 1), ...others.slice(index + by)];
}

interface MoreProps {
  readonly name: string;
  readonly disabled: boolean;
  readonly isFirst: boolean;
  readonly isLast: boolean;
  readonly onDuplicate: () => void;
  readonly onMove: (by: -1 | 1) => void;
  readonly onDelete: () => void;
}

function More({ name, disabled, isFirst, isLast, onDuplicate, onMove, onDelete }: MoreProps) {
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" disabled={disabled} aria-label={`More of ${name}`}>
          <DotsVerticalIcon />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={onDuplicate}>Duplicate</Menu.Item>
        <Menu.Item disabled={isFirst} onClick={() => onMove(-1)}>
          Move up
        </Menu.Item>
        <Menu.Item disabled={isLast} onClick={() => onMove(1)}>
          Move down
        </Menu.Item>
        <Menu.Item color="red" onClick={onDelete}>
          Delete
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

interface NewProps {
  readonly actions: readonly Action[];
  readonly disabled: boolean;
  readonly onAdd: (action: Action) => void;
}

function NewMapping({ actions, disabled, onAdd }: NewProps) {
  return (
    <Group>
      <Menu position="bottom-start" width={320}>
        <Menu.Target>
          <Button variant="default" size="sm" leftSection={<PlusIcon aria-hidden />} disabled={disabled}>
            Add a mapping
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <ScrollArea.Autosize mah={320}>
            {actions.map((action) => (
              <Menu.Item key={action.action} onClick={() => onAdd(action)}>
                <Text size="sm" fw={500}>
                  {action.title}
                </Text>
                <Text size="xs" c="dimmed" lineClamp={2}>
                  {action.description}
                </Text>
              </Menu.Item>
            ))}
          </ScrollArea.Autosize>
        </Menu.Dropdown>
      </Menu>
    </Group>
  );
}
