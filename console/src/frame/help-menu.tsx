import { Button, Menu } from '@mantine/core';
import { QuestionMarkCircledIcon } from '@radix-ui/react-icons';

/** Documentation that the gateway serves beside the console. */
const LINKS = [
  { text: 'Documentation', href: '/guide/' },
  { text: 'Reference of the API', href: '/docs' },
] as const;

/** Opens the documentation in another tab, so that unsaved input on the page is kept. */
export function HelpMenu() {
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="subtle" color="gray" size="compact-md" aria-label="Help">
          <QuestionMarkCircledIcon aria-hidden />
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {LINKS.map(({ text, href }) => (
          <Menu.Item key={href} component="a" href={href} target="_blank" rel="noreferrer">
            {text}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
